"""Many processes from one cell: started, run together, freed where one fails.

    wire        messages between the notebook and a rank; no torch here, nor in the notebook
    place       where a rank stands: line, operation between ranks, device
    standstill  which ranks can never go on, and why; a pure function of places
    failures    what a cell raised in several ranks, as one message
    settings    what a rank is started with
    forkserver  a program of one thread that has imported torch, and forks ranks
    drivers     how ranks come to be: forked, or started one by one
    cluster     the driver that starts ranks beside the engines of an ipyparallel cluster
    engine      on such an engine: starts a rank, passes bytes on
    engine_line  the notebook's end of that
    launched    what torchrun, srun and mpirun tell a process of its place in a job
    joined      such a process as a rank: rank 0 watches, all are freed where one fails
    found_groups  the process groups that its script makes
    pings       clocks of several hosts compared
    peers       the notebook's end of each rank
    watch       one cell in all ranks: who has ended, who waits, who is to be freed
    interrupts  an interrupt of the notebook is counted while a cell runs in ranks
    session     starts, runs, renews and ends; what the magic and the function call
    service     in a rank: the thread that answers while the main thread runs the cell
    with_sim    for the fork server: the simulated device, loaded once for all ranks
    job         in a rank: seeds, device, store and process group
    groups      in a rank: process groups made, freed, made anew

The shell of a rank belongs to perfmagic.magics; a driver starts it by its name, as it starts any program.
"""
