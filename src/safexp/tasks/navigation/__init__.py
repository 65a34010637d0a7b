"""Navigation tasks: drive the Point or the Car to goals, press buttons, push a box, circle or run, and avoid costs.

`NavigationVectorEnv` steps many at once; `NavigationEnv` is a batch of one. The definitions, and a
comparison with the originals: docs/reference/tasks/goal-tasks.md.
"""

from safexp.core.extras import needed_for

with needed_for("a navigation task"):
    from safexp.tasks.navigation.env import NavigationEnv
    from safexp.tasks.navigation.layouts import Layout
    from safexp.tasks.navigation.vector_env import NavigationVectorEnv

__all__ = ["Layout", "NavigationEnv", "NavigationVectorEnv"]
