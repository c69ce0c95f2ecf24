"""Many processes from one cell: started, run together, freed where one fails.

    settings    what a rank is started with; what torchrun, srun and mpirun tell a process of its place in a job
    connection  messages between the notebook and a rank; no torch here, nor in the notebook
    hangs       where a rank is, and which ranks can never go on: a pure function of their places
    failures    what a cell raised in several ranks, as one message
    forkserver  a program of one thread that has imported torch, and forks ranks
    drivers     starts ranks on this machine: forked, or one by one
    cluster     starts ranks beside the engines of an ipyparallel cluster
    engine      on such an engine: starts a rank, relays bytes
    peers       the notebook's end of each rank
    printed     what ranks print, in batches
    watch       one cell in all ranks: who has ended, who waits, who is to be freed
    session     starts, runs, renews and ends ranks; what the magic and the function call
    service     in a rank: the thread that answers while the main thread runs the cell
    helpers     in a rank: what its threads do, and which key of a store the main one waits for
    job         in a rank: seeds, device, store and process group
    groups      in a rank: process groups made, freed, renewed; those that a script makes
    pings       in a rank: clocks of several hosts compared
    joined      a process of torchrun, srun or mpirun as a rank: rank 0 watches all of them

The shell of a rank belongs to perfmagic.magics; a driver starts it by its name, as it starts any program.
"""
