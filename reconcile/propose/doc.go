// Package propose opens a pull request that takes definitions back to the revision that was applied
// before, where a rollout is stopped because its launches have failed and spec.rollout.onFailure is
// BrakeAndPropose.
//
// In come the pools of the rollout, as the status has them and as the pass has found them; out they
// come with the pull request of each (status.poolRollouts[].proposal). Which are due is decided
// by values (due.go). An Asker does the work beside the passes, as often as it takes, and a pass reads
// its last answer: none ever waits for one.
//
// A pull request is looked for before one is opened, whatever has become of it, and so is its branch:
// a daemon that was killed, and another leader, go on where that one has stood, and what a person has
// closed is not opened again. It never merges, and writes to no branch that is there.
package propose
