package main

import (
	"fmt"
	"slices"
	"strings"
)

// level is what a teardown goes down to.
type level string

// The levels, each of which takes what the ones before it take.
const (
	toNodes       level = "nodes"
	toDefinitions level = "definitions"
	toController  level = "controller"
	toCRDs        level = "crds"
)

var levels = []level{toNodes, toDefinitions, toController, toCRDs}

// String, Set and Type make it a flag.
func (l *level) String() string { return string(*l) }

// Set takes the name of a level.
func (l *level) Set(value string) error {
	if !slices.Contains(levels, level(value)) {
		return fmt.Errorf("%q is none of %s", value, levelNames(", "))
	}
	*l = level(value)
	return nil
}

// Type names the values in help texts.
func (*level) Type() string { return levelNames("|") }

func levelNames(between string) string {
	names := make([]string, len(levels))
	for i := range levels {
		names[i] = string(levels[i])
	}
	return strings.Join(names, between)
}

// takes says whether a level takes what another one does.
func (l level) takes(other level) bool { return slices.Index(levels, l) >= slices.Index(levels, other) }

// keeps says whether only nodes are taken away, and their definitions stay.
func (l level) keeps() bool { return !l.takes(toDefinitions) }
