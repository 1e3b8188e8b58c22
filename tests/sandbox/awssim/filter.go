package awssim

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// attributes maps the name of a filter to the values that it compares.
type attributes[T any] map[string]func(T) []string

// one is an attribute with exactly one value.
func one[T any](f func(T) string) func(T) []string {
	return func(t T) []string { return []string{f(t)} }
}

type tagged interface{ tags() map[string]string }

// selector returns a predicate for filters: every filter must match, and a filter matches if one of its values does.
// tag:<key>, tag-key and tag-value work for everything; another name must be in attrs.
func selector[T tagged](filters []*ec2.Filter, attrs attributes[T]) (func(T) bool, error) {
	if err := checkFilters(filters); err != nil {
		return nil, err
	}
	predicates := make([]func(T) bool, 0, len(filters))
	for _, f := range filters {
		values, err := filterValues(aws.StringValue(f.Name), attrs)
		if err != nil {
			return nil, err
		}
		patterns := aws.StringValueSlice(f.Values)
		predicates = append(predicates, func(t T) bool {
			return slices.ContainsFunc(values(t), func(v string) bool {
				return slices.ContainsFunc(patterns, func(p string) bool { return wildcard(p, v) })
			})
		})
	}
	return func(t T) bool {
		for _, p := range predicates {
			if !p(t) {
				return false
			}
		}
		return true
	}, nil
}

// The limits of filters in one call, in the words of EC2's own errors; the number of filters is that of
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
const (
	mostFilters     = 50
	mostValues      = 200
	longestFiltered = 255
)

func checkFilters(filters []*ec2.Filter) error {
	values := 0
	for _, f := range filters {
		values += len(f.Values)
		for _, v := range f.Values {
			if len(aws.StringValue(v)) > longestFiltered {
				return wire.Errorf("FilterLimitExceeded", "The maximum length for a filter value is %d characters", longestFiltered)
			}
		}
	}
	switch {
	case len(filters) > mostFilters:
		return wire.Errorf("FilterLimitExceeded", "The maximum number of filters specified on a single call is %d", mostFilters)
	case values > mostValues:
		return wire.Errorf("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", mostValues)
	}
	return nil
}

func filterValues[T tagged](name string, attrs attributes[T]) (func(T) []string, error) {
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		return func(t T) []string {
			if v, ok := t.tags()[key]; ok {
				return []string{v}
			}
			return nil
		}, nil
	}
	switch name {
	case "tag-key":
		return func(t T) []string {
			var keys []string
			for k := range t.tags() {
				keys = append(keys, k)
			}
			return keys
		}, nil
	case "tag-value":
		return func(t T) []string {
			var values []string
			for _, v := range t.tags() {
				values = append(values, v)
			}
			return values
		}, nil
	}
	if values, ok := attrs[name]; ok {
		return values, nil
	}
	return nil, wire.Errorf("InvalidParameterValue", "The filter '%s' is invalid", name)
}

// wildcard matches like EC2's filters: * is any number of characters, ? is one, and a backslash escapes the next
// character.
func wildcard(pattern, s string) bool {
	for len(pattern) > 0 {
		switch c := pattern[0]; {
		case c == '*':
			for i := len(s); i >= 0; i-- {
				if wildcard(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case c == '\\' && len(pattern) > 1:
			pattern = pattern[1:]
			if len(s) == 0 || s[0] != pattern[0] {
				return false
			}
		case len(s) == 0 || c != '?' && c != s[0]:
			return false
		}
		pattern, s = pattern[1:], s[1:]
	}
	return len(s) == 0
}
