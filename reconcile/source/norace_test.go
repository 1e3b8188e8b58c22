//go:build !race

package source_test

const raced = false
