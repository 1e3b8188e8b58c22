//go:build race

package property

// checks is how many times values are drawn: what the race detector finds does not depend on their number, and it makes
// each of them ten times slower.
const checks = "30"
