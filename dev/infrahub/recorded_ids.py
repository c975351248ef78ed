"""The ids of what two recorded servers held at the beginning of their stories."""

from __future__ import annotations

Row = tuple[int, str, str, str]  # application, artifact, its storage_id attribute, stored object


def _rows(table: str) -> tuple[Row, ...]:
    lines = (line.split() for line in table.strip().splitlines())
    return tuple((int(app), artifact, attribute, stored) for app, artifact, attribute, stored in lines)


# 1.11.9
INFOS = _rows("""
    1 18ed05c9-affc-604f-e3e2-13e34fd17236 18ed05c9-b089-2df2-e316-13e3bcc80556 18ed05c9-be07-dd78-e328-13e38aa6b32b
    2 18ed05cf-9d83-e2d5-e30d-13e33fa15581 18ed05cf-9db9-4e9a-e366-13e395125c0e 18ed05cf-a603-158b-e38b-13e3e0725483
    3 18ed05cc-8b3e-72fc-e3a7-13e3cbf2194c 18ed05cc-8b83-b1db-e32a-13e35d84753c 18ed05cc-9623-291b-e369-13e3bc161461
    4 18ed05c9-2c32-dcaa-e333-13e373ef7d07 18ed05c9-2c75-4b3d-e3ad-13e3ca673da2 18ed05ca-13f9-97a3-e355-13e3c61daf1f
    5 18ed05ca-3389-e8f1-e3f0-13e3c6880d64 18ed05ca-3513-cc7f-e367-13e397c4a2e0 18ed05ca-cea6-4fe1-e3d5-13e3360adc04
""")
MANIFESTS = _rows("""
    1 18ed05ca-3375-9fb0-e3eb-13e3f100b310 18ed05ca-34af-61b7-e310-13e3099e48d5 18ed05ca-c6a0-5ba6-e384-13e3b09a2d73
    2 18ed05d0-c539-a96c-e381-13e3c2506665 18ed05d0-c56e-0598-e38d-13e3b3c73392 18ed05d0-cf74-2ef7-e34e-13e32c53e87f
    3 18ed05ce-49ff-d37e-e31c-13e353283215 18ed05ce-4a41-c310-e3ef-13e3bcd63005 18ed05ce-5783-9886-e399-13e309bd7003
    4 18ed05c9-b06c-366f-e3fb-13e3a6436fe6 18ed05c9-b105-aa7e-e395-13e310b36679 18ed05c9-c57e-e0ff-e38d-13e39293d73a
    5 18ed05ca-3369-71fe-e3e2-13e3d548579b 18ed05ca-34f2-df8e-e362-13e3ed01cba4 18ed05cb-f09d-f0a6-e334-13e316d97b62
""")
TARGETS = (
    "18ed05c5-d666-5de3-e3b7-13e3737fa6e7",
    "18ed05c6-8a2e-abdc-e3fe-13e3f7a7088f",
    "18ed05c7-37c1-26db-e3d1-13e3d2e1f233",
    "18ed05c7-4cac-5935-e38d-13e39b9fcb16",
    "18ed05c7-6314-9b76-e3d5-13e3a9baceb8",
)
# 1.4.13
OLD_INFOS = _rows("""
    1 18ed06e5-2a32-da33-e328-16ba6059342f 18ed06e5-333d-1bcf-e354-16ba0e63ac38 18ed06e5-bc37-e6ac-e3c0-16ba4d3bf127
    2 18ed06e4-fa7d-da9b-e316-16ba8fd5a2e2 18ed06e5-3327-6c17-e33c-16bac647a5c4 18ed06e7-44b2-130f-e32b-16ba6e35ca74
    3 18ed06e8-00c0-9703-e311-16bac1eb264a 18ed06e8-01dd-4bc6-e39c-16ba89b7fca8 18ed06e8-1631-69a7-e398-16badd839045
    4 18ed06e6-d9d0-fcd5-e3f8-16baf4702ae0 18ed06e6-de34-beea-e329-16ba69d01220 18ed06e6-fb44-7017-e3fc-16ba19aa65e0
    5 18ed06e8-b057-0ae5-e372-16ba49df8eec 18ed06e8-b0e8-1f86-e3b6-16baeb0d9544 18ed06e9-a6db-146f-e301-16bae740c47b
""")
OLD_INFO5_AGAIN = "18ed06ea-631e-849f-e3dd-16baca79ecea"  # the same content, stored a second time
OLD_MANIFESTS = _rows("""
    1 18ed06e5-19cd-117e-e3df-16ba7c15e123 18ed06e5-3310-8874-e3d7-16baa0a19af5 18ed06e7-1cb8-ba93-e383-16bad1dbe7b8
    2 18ed06e4-f577-8882-e3ac-16ba88d087c9 18ed06e5-3350-6c04-e3ae-16babfa777b5 18ed06e6-3485-db30-e347-16ba36968a1e
    3 18ed06eb-28ac-d771-e346-16ba0ea17ee3 18ed06eb-293e-3abe-e38a-16ba2908161a 18ed06ec-d172-daaa-e3a8-16ba23ebb7ec
    4 18ed06e6-135c-5327-e3bd-16ba7f7067bd 18ed06e6-14ee-a939-e33c-16ba9e9507cf 18ed06e6-dc97-1a9f-e30a-16ba44ad8419
    5 18ed06e5-dc77-4f6b-e378-16ba750598e0 18ed06e5-df2c-efcc-e311-16ba2a905475 18ed06e5-f131-ce95-e3c5-16bab638e1d1
""")
OLD_TARGETS = (
    "18ed06df-d7be-1080-e3b2-16ba32fd88d6",
    "18ed06e1-191e-2e4c-e305-16ba48ae5bbd",
    "18ed06e1-78b4-e0fb-e3d2-16ba92047ecd",
    "18ed06e1-a145-d8be-e39b-16ba732d9d7c",
    "18ed06e1-c009-78fc-e357-16ba8c4e85f2",
)

# What came later on 1.11.9: name, id, created, branched off.
BRANCHES = (
    ("feature/vidra-1", "18ed05e8-a57d-0249-e399-13e33933e335", "04:12:03.139909Z", "04:12:03.139944Z"),
    ("-dash", "18ed05ea-af84-3b56-e33d-13e394af6ab6", "04:12:11.912317Z", "04:12:11.912364Z"),
    ("UPPER", "18ed05ed-63e6-c045-e336-13e33a987acb", "04:12:23.522139Z", "04:12:23.522189Z"),
    ("ünï", "18ed05ee-6334-d724-e3c2-13e3ef480abb", "04:12:27.810929Z", "04:12:27.810978Z"),
    ("pr#12", "18ed05ef-9bca-c48d-e3fe-13e3d24005dd", "04:12:33.055296Z", "04:12:33.055346Z"),
    ("via-stored-query", "18ed05fa-69b4-631c-e3b9-13e34c9c791f", "04:13:19.464000Z", "04:13:19.464088Z"),
    ("feature/vidra-2", "18ed061b-e4f7-ef4b-e3f0-13e3094af410", "04:15:43.266000Z", "04:15:43.266033Z"),
)
APP1_OBJECTS = ("18ed05e8-328c-fd83-e3c6-13e3dbb02a1a", "18ed05fc-2e0a-f6fb-e39d-13e3176a55a4")
LATE_ATTRIBUTE = "18ed0646-2a49-65e2-e3d8-13e3c7ae62cc"
