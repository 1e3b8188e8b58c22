package simulate_test

import (
	"math"

	"github.com/google/go-cmp/cmp"
)

// close compares sums of prices to a tenth of a cent.
var close = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 0.001 })
