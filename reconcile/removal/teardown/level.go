package teardown

import (
	"fmt"
	"slices"
	"strings"
)

// Level is how much a teardown deletes. It is the value of a flag.
type Level string

// The levels. Each one includes the levels before it.
const (
	ToNodes       Level = "nodes"
	ToDefinitions Level = "definitions"
	ToController  Level = "controller"
	ToCRDs        Level = "crds"
	ToAWS         Level = "aws"
)

var levels = []Level{ToNodes, ToDefinitions, ToController, ToCRDs, ToAWS}

// String returns its name.
func (l *Level) String() string { return string(*l) }

// Set sets the level by its name.
func (l *Level) Set(value string) error {
	if !slices.Contains(levels, Level(value)) {
		return fmt.Errorf("%q is not one of %s", value, levelNames(", "))
	}
	*l = Level(value)
	return nil
}

// Type returns the possible values, for help texts.
func (*Level) Type() string { return levelNames("|") }

func levelNames(between string) string {
	names := make([]string, len(levels))
	for i := range levels {
		names[i] = string(levels[i])
	}
	return strings.Join(names, between)
}

// Takes reports whether the level includes another one.
func (l Level) Takes(other Level) bool { return slices.Index(levels, l) >= slices.Index(levels, other) }

// Keeps reports whether only nodes are deleted, and their definitions stay.
func (l Level) Keeps() bool { return !l.Takes(ToDefinitions) }
