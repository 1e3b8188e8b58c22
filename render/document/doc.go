// Package document reads YAML and JSON text that other people wrote.
//
// In goes the text of one file. Out come its documents: plain values as the API
// server would read them (maps with string keys, slices, strings, bools, int64
// and float64), each knowing the line of every field in it.
//
// It holds limits of depth and size, so that no text makes more values than it
// has bytes for, and never panics on one. It does no I/O.
package document
