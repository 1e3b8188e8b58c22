package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// operator is a condition operator with its set prefix and suffix:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
type operator struct {
	match    func(pattern, value string) bool
	negated  bool // StringNotEquals: none of the patterns matches
	ifExists bool
	all, any bool // ForAllValues, ForAnyValue
	null     bool
}

// comparisons are the operators that do not negate.
var comparisons = map[string]func(pattern, value string) bool{
	"StringEquals":             func(p, v string) bool { return plain(p) == v },
	"StringEqualsIgnoreCase":   func(p, v string) bool { return strings.EqualFold(plain(p), v) },
	"StringLike":               like,
	"ArnEquals":                arnLike,
	"ArnLike":                  arnLike,
	"Bool":                     func(p, v string) bool { return strings.EqualFold(plain(p), v) },
	"NumericEquals":            numbers(func(v, p float64) bool { return v == p }),
	"NumericLessThan":          numbers(func(v, p float64) bool { return v < p }),
	"NumericLessThanEquals":    numbers(func(v, p float64) bool { return v <= p }),
	"NumericGreaterThan":       numbers(func(v, p float64) bool { return v > p }),
	"NumericGreaterThanEquals": numbers(func(v, p float64) bool { return v >= p }),
	"DateEquals":               dates(func(v, p time.Time) bool { return v.Equal(p) }),
	"DateLessThan":             dates(func(v, p time.Time) bool { return v.Before(p) }),
	"DateLessThanEquals":       dates(func(v, p time.Time) bool { return !v.After(p) }),
	"DateGreaterThan":          dates(func(v, p time.Time) bool { return v.After(p) }),
	"DateGreaterThanEquals":    dates(func(v, p time.Time) bool { return !v.Before(p) }),
	"IpAddress":                within,
}

// negations maps the operators that do to what they negate.
var negations = map[string]string{
	"StringNotEquals": "StringEquals", "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase", "StringNotLike": "StringLike",
	"ArnNotEquals": "ArnEquals", "ArnNotLike": "ArnLike", "NumericNotEquals": "NumericEquals", "DateNotEquals": "DateEquals", "NotIpAddress": "IpAddress",
}

func parseOperator(name string) (operator, error) {
	var o operator
	base := name
	if rest, ok := strings.CutPrefix(base, "ForAllValues:"); ok {
		base, o.all = rest, true
	} else if rest, ok := strings.CutPrefix(base, "ForAnyValue:"); ok {
		base, o.any = rest, true
	}
	if base == "Null" {
		o.null = true
		return o, nil
	}
	base, o.ifExists = strings.CutSuffix(base, "IfExists")
	if positive, ok := negations[base]; ok {
		base, o.negated = positive, true
	}
	var ok bool
	if o.match, ok = comparisons[base]; !ok {
		return o, fmt.Errorf("unknown condition operator %q", name)
	}
	return o, nil
}

// holds reports whether the values of a key in the context satisfy the condition. An absent key satisfies negated
// operators, and ForAllValues.
func (o operator) holds(patterns []string, key string, c Context) bool {
	found, present := c.get(key)
	if o.null {
		return len(patterns) > 0 && (plain(patterns[0]) == "true") == (!present || len(found) == 0)
	}
	one := func(value string) bool {
		matches := slices.ContainsFunc(patterns, func(p string) bool { return o.match(p, value) })
		return matches != o.negated
	}
	switch {
	case len(found) == 0:
		return o.ifExists || o.all || o.negated && !o.any
	case o.all, o.negated && !o.any:
		return !slices.ContainsFunc(found, func(v string) bool { return !one(v) })
	}
	return slices.ContainsFunc(found, one)
}

// arnLike compares the six parts of an ARN one by one: no wildcard crosses a colon.
func arnLike(pattern, value string) bool {
	const parts = 6
	ps, vs := strings.SplitN(pattern, ":", parts), strings.SplitN(value, ":", parts)
	if len(ps) != len(vs) {
		return pattern == "*"
	}
	for i := range ps {
		if !like(ps[i], vs[i]) {
			return false
		}
	}
	return true
}

func numbers(compare func(value, pattern float64) bool) func(string, string) bool {
	return func(pattern, value string) bool {
		p, err := strconv.ParseFloat(plain(pattern), 64)
		if err != nil {
			return false
		}
		v, err := strconv.ParseFloat(value, 64)
		return err == nil && compare(v, p)
	}
}

func dates(compare func(value, pattern time.Time) bool) func(string, string) bool {
	return func(pattern, value string) bool {
		p, err := time.Parse(time.RFC3339, plain(pattern))
		if err != nil {
			return false
		}
		v, err := time.Parse(time.RFC3339, value)
		return err == nil && compare(v, p)
	}
}

// within reports whether an address is in a block, or equals it.
func within(pattern, value string) bool {
	address, err := netip.ParseAddr(value)
	if err != nil {
		return false
	}
	if block, err := netip.ParsePrefix(plain(pattern)); err == nil {
		return block.Contains(address)
	}
	p, err := netip.ParseAddr(plain(pattern))
	return err == nil && p == address
}
