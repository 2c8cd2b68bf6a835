"""`python -m mean_actor_critic` is `mac`."""

from mean_actor_critic.cli.main import main

main()
