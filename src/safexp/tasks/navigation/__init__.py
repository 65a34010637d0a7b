"""The navigation tasks: drive the Point or the Car to goals, to buttons, with a box, round a circle; avoid what costs.

`NavigationVectorEnv` runs many at once; `NavigationEnv` is a batch of one. Definitions, and what is known of the
originals, are in docs/goal-tasks.md.
"""

from safexp.core.extras import needed_for

with needed_for("a navigation task"):
    from safexp.tasks.navigation.env import NavigationEnv
    from safexp.tasks.navigation.layouts import Layout
    from safexp.tasks.navigation.vector_env import NavigationVectorEnv

__all__ = ["Layout", "NavigationEnv", "NavigationVectorEnv"]
