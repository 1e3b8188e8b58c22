// Package document parses YAML and JSON that other people wrote.
//
// Its input is the text of one file. Its outputs are the documents: plain values as the API server would read them
// (maps with string keys, slices, strings, bools, int64 and float64), and the line of every field.
//
// It limits depth and size, so that no text expands to more values than it has bytes for, and it never panics. It does
// no I/O.
package document
