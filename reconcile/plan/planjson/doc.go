// Package planjson is a Plan as JSON: what `plumbline plan -o json` prints, and what the
// expressions of spec.policies see. The types are the shape, by version: a field is added, and
// none changes its meaning, while APIVersion stays. It makes nothing by itself: package plan
// writes a Plan into it.
package planjson
