//go:build race

package source_test

// With the race detector the memory of the process is mostly the detector's.
const raced = true
