//go:build !steppoints

package steppoint

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// Options is empty in this build.
type Options struct{}

// BindFlags adds no flag.
func (*Options) BindFlags(*pflag.FlagSet) {}

// Points is empty in this build.
type Points struct{}

// New returns no points, and never an error.
func New(Options) (Points, error) { return Points{}, nil }

// Step does nothing.
func (Points) Step(string) {}

// Phase does nothing.
func (Points) Phase(_, _ string) {}

// Request does nothing.
func (Points) Request(string) {}

// Watch does nothing.
func (Points) Watch(*rest.Config) {}
