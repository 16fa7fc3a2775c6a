"""How a run's task reaches an agent, and how its answer comes back.

`port` is what the service knows of a runner, `messages` what agents say, the same over every way.
`command` starts a program, `http` posts to an agent, `mqtt` hands runs over by topics. A runner
does what it is told and reports one outcome; it never decides whose turn it is.
"""
