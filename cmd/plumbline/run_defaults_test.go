package main

import (
	"testing"

	"github.com/spf13/pflag"
)

// TestWhatIsServedByDefault: profiles are not served, and metrics only to those who may read them.
func TestWhatIsServedByDefault(t *testing.T) {
	o := &runOptions{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.bind(flags)
	if err := flags.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if o.profilingAddr != "0" {
		t.Errorf("profiles are served at %q", o.profilingAddr)
	}
	if o.pageAddr != "0" {
		t.Errorf("the page is served at %q", o.pageAddr)
	}
	if !o.metricsAuth {
		t.Error("metrics are served to everyone")
	}
}
