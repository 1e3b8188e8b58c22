//go:build race

package source_test

// With the race detector, most of the process's memory is the detector's.
const raced = true
