"""The text of stored queries: the one every stand-in has, and those of the recorded servers."""

from __future__ import annotations

ARTIFACT_IDS = """query ArtifactIDs($artifactname: [String]) {
  CoreArtifact(name__values: $artifactname) {
    edges { node { id name { value } checksum { value } storage_id { id } } }
  }
}
"""
RECORDED = {
    "app_by_name": """query AppByName($app: String!) {
  VidraApp(name__value: $app) {
    edges { node { name { value } namespace { value } image { value } replicas { value } note { value } } }
  }
}
""",
    "artifact_page": """query ArtifactPage($names: [String], $offset: Int, $limit: Int) {
  CoreArtifact(name__values: $names, offset: $offset, limit: $limit) {
    count
    edges { node { id name { value } status { value } checksum { value } storage_id { value } content_type { value }
      object { node { id __typename display_label } } definition { node { id display_label } } } }
  }
}
""",
    "new_branch": """mutation NewBranch($name: String!) {
  BranchCreate(data: {name: $name, sync_with_git: false}) { ok object { id name } }
}
""",
}
