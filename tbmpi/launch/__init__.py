# SPDX-License-Identifier: MIT
"""tbmpirun: starts the ranks of a job, serves them, watches them, ends them.

options  what the user typed            -> a Request
plan     what that means                -> a Plan: every rank, in full
cli      the command: options, plan, job, exit code
job      the life of one job: what counts as a failure, which exit code
ranks    the processes of one machine: start, signal, reap, end
guard    the parent of all processes; ends them when the launcher is killed
pmi      the start-up protocol that the ranks speak (PMI-1)
output   standard output and error, from ranks to the user
feed     standard input for several ranks
segment  the job's shared memory
board    what every rank is doing, read from that memory
report   the sentences people read
stacks   where a rank hangs, for --timeout
hosts    hosts as people name them
hostfile files of them, in the formats people have
nodes    machines, and which ranks each one has
site     what a job runs on, and what each process is given
helpers  processes that serve the ranks: routers

cluster  several machines, with an agent on each
agent    the agent: starts a machine's ranks and speaks for them
as_told  what it is told of a job, and what it makes of it
ssh      how it is started, and why it could not be
wire     messages between it and tbmpirun
links    the sockets between the ranks of different machines

sim      emulated Macs (--sim)
topology, topology_file, json_lines   their cables
fabric   the state that their emulated devices share
wires    the sockets that go silent with a cable
faults   what goes wrong, and when
pools    what routers note in memory
control  how tbmpi sim and tbmpi info reach a job
drawing  a topology as a picture
"""
