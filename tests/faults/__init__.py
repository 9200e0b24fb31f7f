"""The proof that nothing is lost and nothing is repeated: an engine that is killed, again and again.

Its machine fails meanwhile, and its operator errs.

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
- `deck`: how lives end and what befalls engines, so that every point and every kind gets its turn.
- `inside`: the same inside this process.
- `damage`: files of a checkpoint, and of Spark's in it, cut off, changed or removed.
- `disk`: a disk that is full when it is told to be.
- `outlet`, `phases`: a sink alone, which fails or dies in each phase of a delivery.
- `churn`: queries added, replaced, dropped, paused and resumed by requests meanwhile.
- `patches`, `conditions`: what an engine has to live with and is planted into it, as a clock that jumps.
- `launch`, `mutants`, `grave_mutants`: the `weft` command with planted bugs, which the oracle has to see.
- `soak`, `findings`: hundreds of kills and mishaps, and a table of what came of them (`make soak`).

Mishaps, which are no kills:

- `ground`: a site on small disks, which one mishap after another befalls, and copies of its checkpoint.
- `mishap`: what a mishap is, and what may come of it.
- `full_disks`: no room for the checkpoint, the results, Spark's scratch files or temporary ones.
- `hard_times`: Java short of memory, and clocks that jump.
- `second_engines`: a lease lost while an engine was stopped, and a copy that runs beside the original.
- `rollback`: an older copy of the checkpoint put back, with the later input or without.
- `mischief`: files that vanish, are cut off or rewritten, or come out of order.
- `gaps`: EMIT EMPTY over a silence of about as many windows as are allowed.
- `mishaps`: all of them by name.
- `befall`: one after another, on one ground after another.
"""
