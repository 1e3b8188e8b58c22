// Package confine does work on what other people wrote in a child process: this very
// program again, with limits on memory, processor time, wall time and output, without
// network, files, environment or credentials.
//
// In goes the name of a job that the program knows and a function that talks to the
// child; between them go plain values (maps, lists, texts, numbers). Out comes what the
// function made of the child's answers, or a *LimitError where the child took more than
// it may.
//
// A few children run at a time, and of one owner, which is named by For, only one. One of
// their places is for owners whose children have not taken long lately: their work waits
// for no heavy one.
//
// A Runner is made once, at the start of main, since the child is started there, too:
// Serve runs the job where this process is a child, and never returns then. What the
// kernel refuses of the confinement is reported once, by Options.Unconfined; the limits of
// time and output hold in any case.
package confine
