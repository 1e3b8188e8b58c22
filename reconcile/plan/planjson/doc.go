// Package planjson is the JSON form of a Plan: what `plumbline plan -o json` prints, and what the expressions of
// spec.policies read. The types define the format of a version: while APIVersion stays, fields may be added, and none
// changes its meaning. Package plan fills these types in.
package planjson
