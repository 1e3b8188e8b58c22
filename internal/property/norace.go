//go:build !race

package property

// checks is how many times values are drawn.
const checks = "100"
