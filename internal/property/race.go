//go:build race

package property

// checks is how many times values are drawn: what the race detector finds does not depend on
// their number, and each draw takes it ten times as long.
const checks = "30"
