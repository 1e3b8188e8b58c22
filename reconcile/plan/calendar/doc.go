// Package calendar says when nodes may be removed or replaced: within spec.guard.windows, and not on
// the dates of spec.guard.freeze. What a NodeSync says and a time go in; whether it is open, and until
// when it is not, comes out. Windows are as in Karpenter's disruption budgets, in a time zone of
// their own. It reads nothing, writes nothing and knows no clock.
package calendar
