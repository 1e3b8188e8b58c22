package kustomize

import (
	"fmt"
	"strings"
)

// Refusal is a field of a kustomization that is not let pass.
type Refusal struct {
	// File from the root of the file system, and Line from 1, or 0.
	File string
	Line int
	// Field of the kustomization, such as resources[0].
	Field string
	// Why it is refused, and what to do.
	Why string
}

// Error names file, field and reason.
func (r Refusal) Error() string { return fmt.Sprintf("%s: %s: %s", r.File, r.Field, r.Why) }

// RefusedError is every field that was refused; nothing was built.
type RefusedError struct {
	Refusals []Refusal
}

// Error lists the refusals.
func (e *RefusedError) Error() string {
	lines := make([]string, 0, len(e.Refusals))
	for _, one := range e.Refusals {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// BuildError is a kustomization that kustomize itself cannot build.
type BuildError struct {
	// File is the kustomization that the build began with.
	File string
	Err  error
}

// Error gives kustomize's own words.
func (e *BuildError) Error() string {
	return fmt.Sprintf("kustomize cannot build %s: %v", e.File, e.Err)
}

// Unwrap returns kustomize's error.
func (e *BuildError) Unwrap() error { return e.Err }
