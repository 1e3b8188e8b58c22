package bench

import (
	"fmt"
	"time"
)

// Planned is the daemon's cost of planning a commit that changes each of 100 NodePools.
type Planned struct {
	// Name is the state of the daemon: first, without the memory of an earlier plan; again; policies.
	Name      string
	Claims    int
	Wall, CPU time.Duration
	// Peak is the maximum memory of the process, in bytes.
	Peak int64
	// Ratio is the CPU time relative to decoding the LIST of the NodeClaims.
	Ratio float64
}

// WhatIf is the cost of `plumbline plan --what-if` with a snapshot file, with five pods on each node, for a commit that
// replaces a tenth of them.
type WhatIf struct {
	Claims, Ending, Leaving int
	Wall, CPU               time.Duration
	// Peak is the maximum memory of the process, in bytes.
	Peak int64
	// Own and OwnCPU are for one call of Karpenter's simulation with all nodes and instance types.
	Own, OwnCPU time.Duration
}

func (p Planned) line() string {
	const limit, peakLimit = time.Second, 300_000_000
	return fmt.Sprintf("plan of a commit to 100 NodePools with %d NodeClaims, %s: %s, bar %s %s; CPU %s; %d MB at its peak, bar %d MB %s; decoding their LIST takes %.1f times the CPU",
		p.Claims, p.Name, seconds(p.Wall), seconds(limit), verdict(p.Wall < limit), seconds(p.CPU), p.Peak/1e6, peakLimit/1_000_000, verdict(p.Peak < peakLimit), p.Ratio)
}

func (w *WhatIf) line() string {
	const limit, peakLimit = 10 * time.Second, 1_000_000_000
	return fmt.Sprintf("what-if of %d NodeClaims and %d pods off a file, %d nodes with %d pods end: %s, bar %s %s, CPU %s; %d MB at its peak, bar %d MB %s; "+
		"Karpenter's own simulation of the whole cluster %s, CPU %s: ÷ Karpenter %.2f",
		w.Claims, 5*w.Claims, w.Ending, w.Leaving, seconds(w.Wall), seconds(limit), verdict(w.Wall < limit), seconds(w.CPU),
		w.Peak/1e6, peakLimit/1_000_000, verdict(w.Peak < peakLimit), seconds(w.Own), seconds(w.OwnCPU), w.CPU.Seconds()/w.OwnCPU.Seconds())
}
