// Package weigh says of YAML text that other people wrote whether it may be read:
// how many values it has, written out, and how many bytes, and whether its lines are
// those that a person sees.
//
// In goes text, or the nodes of one that was parsed; out comes nil or a *Error. It
// makes no value of the text, so that weighing costs no more than the text is long,
// and it comes before every reader: what a reader makes of a few hundred bytes with
// aliases, or of a few megabytes of brackets, can be more than there is memory.
package weigh
