// Package confine processes what other people wrote in a child process: this program again, with limits on memory,
// processor time, wall time and output, without network, files, environment or credentials.
//
// Its input is the name of a job that the program knows, and a function that exchanges plain values (maps, lists,
// strings, numbers) with the child. Its output is what the function makes of the child's messages, or a *LimitError if
// the child exceeded a limit.
//
// A few children run at a time, and only one for each owner (For). One of their places is reserved for owners whose
// children have not taken long recently, so that their work never waits for a heavy one.
//
// Create the Runner once, at the start of main, because the child starts there, too: in a child, Serve runs the job and
// never returns. If the kernel refuses a part of the confinement, this is reported once, with Options.Unconfined; the
// limits on time and output apply in any case.
package confine
