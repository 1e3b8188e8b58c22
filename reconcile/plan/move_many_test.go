package plan_test

import (
	"fmt"
	"testing"
)

// TestManyPoolsMove: pools that are only renamed are recognized, however many; of those that differ in more, some are,
// and the others are plain removals, because the number of comparisons is limited.
func TestManyPoolsMove(t *testing.T) {
	const many = 200
	for name, test := range map[string]struct {
		more string
		want int
	}{
		"renamed":            {"", many},
		"and given a weight": {"weight: 7", 20_000 / many},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			before, after := []string{class("default")}, []string{class("default")}
			for i := range many {
				before = append(before, pool(fmt.Sprintf("pool%d", i), "default"))
				after = append(after, pool(fmt.Sprintf("pool%d-b", i), "default", test.more))
			}
			c.have(t, owner, before...)
			moved := 0
			for _, r := range c.plan(t, after...).Removals {
				if len(r.MovesTo) > 0 {
					moved++
				}
			}
			if moved != test.want {
				t.Errorf("%d of %d move, want %d", moved, many, test.want)
			}
		})
	}
}
