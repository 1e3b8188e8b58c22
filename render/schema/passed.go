package schema

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
)

const (
	// longestPart is how many bytes the text of a part has at most that is remembered.
	longestPart = 1024
	// mostParts bounds how many are remembered; beyond it all are dropped.
	mostParts = 1024
)

// passed are the parts of objects that have passed the schema at their places. Neither
// OpenAPI nor a CEL rule sees more than the value at its place, so that such a part passes in
// any other object: a fleet has the same requirements and selectors in thousands of objects,
// and to check them takes most of a render.
type passed struct {
	root *place

	mu sync.Mutex
	// costs is what the rules on a part have cost, and those on its own parts.
	costs map[part]int64
}

// part is a value at a place, as text that no other value has.
type part struct {
	at   *place
	text string
}

// all says whether an object passes. What is wrong with one that does not, it does not say.
func (p *passed) all(ctx context.Context, object map[string]any, budget int64) bool {
	_, passes := p.pass(ctx, p.root, object, budget)
	return passes
}

// pass says whether a value passes, and what of the budget for rules is left then.
func (p *passed) pass(ctx context.Context, at *place, value any, budget int64) (left int64, passes bool) {
	text, remembered := textOf(value)
	key := part{at, text}
	if remembered {
		if cost, known := p.cost(key); known {
			return budget - cost, budget > cost
		}
	}
	if left, passes = at.check(ctx, value, budget); !passes {
		return left, false
	}
	passes = at.parts(value, func(below *place, part any) (on bool) {
		left, on = p.pass(ctx, below, part, left)
		return on
	})
	if passes && remembered {
		p.remember(key, budget-left)
	}
	return left, passes
}

func (p *passed) cost(key part) (cost int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cost, known = p.costs[key]
	return cost, known
}

func (p *passed) remember(key part, cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.costs == nil || len(p.costs) >= mostParts {
		p.costs = map[part]int64{}
	}
	p.costs[key] = cost
}

// textOf is the text of a value to remember it by: of a short map or list.
func textOf(value any) (text string, found bool) {
	switch value.(type) {
	case map[string]any, []any:
		made, short := appendText(make([]byte, 0, longestPart), value)
		return string(made), short
	}
	return "", false
}

// appendText appends a text that no other value has; false once it is too long.
func appendText(text []byte, value any) (_ []byte, short bool) {
	switch value := value.(type) {
	case map[string]any:
		text = append(text, '{')
		keys := slices.AppendSeq(make([]string, 0, len(value)), maps.Keys(value))
		slices.Sort(keys)
		for _, key := range keys {
			text = append(strconv.AppendQuote(text, key), ':')
			if text, short = appendText(text, value[key]); !short {
				return text, false
			}
		}
		text = append(text, '}')
	case []any:
		text = append(text, '[')
		for _, item := range value {
			if text, short = appendText(text, item); !short {
				return text, false
			}
		}
		text = append(text, ']')
	case string:
		if len(value) > longestPart {
			return text, false
		}
		text = strconv.AppendQuote(text, value)
	case bool:
		text = append(strconv.AppendBool(text, value), ' ')
	case int64:
		text = append(strconv.AppendInt(text, value, 10), ' ')
	default:
		return text, false // fractions and nulls are too rare to have a text of their own
	}
	return text, len(text) <= longestPart
}
