"""`python -m demo`: sets the stage, plays the story, and waits for Ctrl-C.

Exit code 0 when all of the story came true, 1 when something didn't, 130 after Ctrl-C in the middle of it. With
CI=true or DEMO_ONCE=1, or where stdout is no terminal, it ends by itself instead of waiting.
"""

from __future__ import annotations

import asyncio
import os
import sys

from controlplane import BinariesUnavailable, BuildFailed, StartFailed, obtain
from demo.screen import Screen
from demo.stage import Stage
from demo.story import NotReached, play

LOOK_AROUND = """
Look around in another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get infrahubsyncs,vidraresources
  kubectl get all,ingress -A -l managed-by=vidra
  kubectl get infrahubsync webservers -o yaml
  kubectl delete -n ns-web-001 deployment web-001     # and see it come back

kubectl is also in .venv/bin. The operator's log: {log}
"""


def main() -> int:
    screen = Screen(sys.stdout)
    once = os.environ.get("CI") == "true" or os.environ.get("DEMO_ONCE") == "1" or not sys.stdout.isatty()
    try:
        screen.title("A real control plane: etcd, kube-apiserver, kube-controller-manager")
        obtain(report=screen.line)
        return asyncio.run(_demo(screen, once))
    except (BinariesUnavailable, BuildFailed, StartFailed) as error:
        screen.line(f"demo: {error}")
        return 1
    except KeyboardInterrupt:
        screen.line("demo: ended by Ctrl-C, nothing is left running")
        return 130


async def _demo(screen: Screen, once: bool) -> int:
    async with Stage(screen) as stage:
        try:
            await play(stage, screen)
        except NotReached as error:
            screen.line(f"demo: {error}")
            screen.line(stage.log_end())
            return 1
        screen.line(LOOK_AROUND.format(kubeconfig=stage.kubeconfig, log=stage.log))
        if once:
            screen.line("demo: all of it was reached")
            return 0
        screen.line("Ctrl-C ends it and leaves nothing behind.")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            screen.line("demo: ended, nothing is left running")
    return 0


if __name__ == "__main__":
    sys.exit(main())
