package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainBool is a boolean flag that help shows as --watch: pflag shows values that have IsBoolFlag as
// --watch[=true|false]. Both are parsed alike.
type plainBool struct{ value pflag.Value }

// String is the flag's value.
func (b plainBool) String() string { return b.value.String() }

// Set sets the flag's value.
func (b plainBool) Set(value string) error { return b.value.Set(value) }

// Type is that of a boolean.
func (b plainBool) Type() string { return b.value.Type() }

// showBoolsPlainly has help show the boolean flags of a command, and of those below it, without their values.
func showBoolsPlainly(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	plain := func(f *pflag.Flag) {
		if _, is := f.Value.(plainBool); !is && f.Value.Type() == "bool" {
			f.Value = plainBool{f.Value}
		}
	}
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, each := range cmd.Commands() {
		showBoolsPlainly(each)
	}
}
