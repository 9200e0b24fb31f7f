"""The proof that nothing is lost and nothing is repeated: an engine that is killed, again and again.

In flow order:

- `events`: a process that writes numbered events as Parquet files, within the delay out of order; a few are
  late, or have no time that can be used.
- `workload`: the queries, as text for Weft and as plain data for the oracle.
- `oracle`: what the results must be, from the event files alone; shares no code with Weft.
- `aside`: the rows that must be in the late and the quarantine dataset, and those that are there.
- `tables`: the results that are in PostgreSQL, for the oracle.
- `leash`: has processes end with the one that started them.
- `site`: the folders of one trial.
- `driver`: an engine in a process group of its own, and the ways to end it.
- `trial`: one life of an engine after another, until the input is used up.
- `deck`: how lives end, so that every point of the protocol gets its turn.
- `inside`: the same inside this process.
- `damage`: files of a checkpoint, and of Spark's in it, cut off, changed or removed.
- `disk`: a disk that is full when it is told to be.
- `outlet`, `phases`: a sink alone, which fails or dies in each phase of a delivery.
- `churn`: queries added, dropped, paused and resumed by requests meanwhile.
- `launch`, `mutants`: the `weft` command with a planted bug, to show that the oracle sees it.
- `soak`: hundreds of kills, and a table of what came of them (`make soak`).
"""
