// Command plumbline keeps a cluster's Karpenter nodes in sync with Git: as a daemon
// in the cluster (plumbline run), and as a CLI on a laptop or in CI.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// version is set by the build of a release.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	confined := confinement(os.Args) // a child process does its work here and exits
	if info, ok := debug.ReadBuildInfo(); ok {
		version = versionOf(version, info.Main.Version)
	}
	// If a file exceeds the size limit, the write fails, as on a full disk; the
	// process does not exit.
	signal.Ignore(syscall.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal stops the command gracefully; a second one stops it at once.
	context.AfterFunc(ctx, stop)
	root, out := newRootCommand(), &standardOutput{file: os.Stdout}
	root.SetOut(out)
	return exitCode(out.outcome(root.ExecuteContext(withConfinement(ctx, confined))), os.Stderr)
}

// versionOf returns the version that the build has set, or else the module's version, as with `go install
// …@v1.2.3`.
func versionOf(built, module string) string {
	if built != "dev" || module == "" || module == "(devel)" {
		return built
	}
	return module
}

// exitCode prints the result of a command and returns the program's exit code.
func exitCode(err error, out io.Writer) int {
	if err == nil {
		return exitDone
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.message != "" {
			fmt.Fprintln(out, redact.Visible(exit.message))
		}
		return exit.code
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "plumbline: stopped")
		return exitFailed
	}
	fmt.Fprintln(out, redact.Visible(errorText(err)))
	return exitFailed
}

// errorText returns the message of an error: for a commit, each mistake once, and how many there are.
func errorText(err error) string {
	var mistakes render.Errors
	if !errors.As(err, &mistakes) || mistakes.Error() != err.Error() {
		return "plumbline: " + strings.TrimSpace(err.Error()) // an error of a kubelet ends with a newline
	}
	if len(mistakes) == 1 {
		return "plumbline: " + mistakes[0].Error()
	}
	var text strings.Builder
	files := map[string]bool{}
	for _, one := range mistakes.Distinct() {
		fmt.Fprintln(&text, one.Error())
	}
	for _, one := range mistakes {
		files[one.File] = true
	}
	fmt.Fprintf(&text, "plumbline: %s in %s", english.Plural(len(mistakes), "error", ""), english.Plural(len(files), "file", ""))
	return text.String()
}

// The CLI exits with one of these codes.
const (
	exitDone    = 0 // done, or no change
	exitFailed  = 1 // an error
	exitChanges = 2 // changes, or drift
	exitHeld    = 3 // held by the guard
	exitStalled = 4 // stalled, or timed out
)

// mostSevere returns, from the results of several NodeSyncs, the one that a person has to handle first: an error, then
// a stalled one, a held one, changes.
func mostSevere(ends ...error) error {
	rank := func(err error) int {
		var exit *exitError
		switch {
		case err == nil:
			return 0
		case errors.As(err, &exit) && exit.code != exitFailed:
			return exit.code
		}
		return math.MaxInt
	}
	return slices.MaxFunc(ends, func(a, b error) int { return cmp.Compare(rank(a), rank(b)) })
}

// exitError exits the program with a specific code. Except for message, the command has
// printed everything already.
type exitError struct {
	code    int
	message string
}

// Error returns the message.
func (e *exitError) Error() string { return e.message }

// standardOutput remembers that a write failed, as on a full disk. Code that prints line by line
// does not check, and the reader of a truncated file would consider it complete.
type standardOutput struct {
	file *os.File
	err  error
}

// Fd returns the file descriptor, from which a terminal's width is read.
func (o *standardOutput) Fd() uintptr { return o.file.Fd() }

// Write writes, and keeps the first error.
func (o *standardOutput) Write(text []byte) (int, error) {
	n, err := o.file.Write(text)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// outcome returns the result of a command: a failed write is an error, regardless of the
// command's exit code.
func (o *standardOutput) outcome(err error) error {
	var exit *exitError
	if o.err != nil && (err == nil || errors.As(err, &exit)) {
		return o.err
	}
	return err
}

// versions is the output of `plumbline version`.
type versions struct {
	Version   string `json:"version"`
	Go        string `json:"go"`
	Karpenter string `json:"karpenter"`
	Helm      string `json:"helm"`
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of plumbline, Go, and the Karpenter and Helm libraries that it is built with",
		Args:  cobra.NoArgs,
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versions{Version: version, Go: runtime.Version()}
		if info, ok := debug.ReadBuildInfo(); ok {
			v.Karpenter, v.Helm = moduleVersion(info, "sigs.k8s.io/karpenter"), moduleVersion(info, "helm.sh/helm/v3")
		}
		return output.write(cmd.OutOrStdout(), v, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "plumbline %s (%s; Karpenter library %s, Helm library %s)\n", v.Version, v.Go, v.Karpenter, v.Helm)
			return err
		})
	}
	return cmd
}

func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return "unknown"
}

func newRootCommand() *cobra.Command {
	kubeconfig := genericclioptions.NewConfigFlags(true)
	kubeconfig.CacheDir = nil // discovery is not cached on disk
	root := &cobra.Command{
		Use:   "plumbline",
		Short: "Keep a cluster's Karpenter nodes in sync with Git",
		Long: `plumbline keeps a cluster's Karpenter nodes in sync with Git. It installs Karpenter's
charts in the only safe order and applies NodePools and EC2NodeClasses. When they are
removed from the repository, it drains and terminates their nodes and verifies in EC2
that the instances are gone.

Commands that connect to a cluster take kubectl's flags, such as --context,
--kubeconfig and -n. Without -n they find the daemon's namespace.

Exit codes: 0 done or no change, 1 error, 2 changes or drift, 3 held by the
guard, 4 stalled or timed out.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("plumbline {{.Version}}\n")
	kubeconfig.AddFlags(root.PersistentFlags())
	completeKubeconfig(root, kubeconfig)
	usage := root.UsageTemplate()
	root.SetUsageTemplate(withoutClusterFlags(usage))
	for _, cmd := range newClusterCommands(kubeconfig) {
		cmd.SetUsageTemplate(strings.Replace(usage, "Global Flags:", "Cluster Flags (those of kubectl):", 1))
		root.AddCommand(cmd)
	}
	root.AddCommand(newRenderCommand(), newConvertCommand(), newVendorCommand(), newImagesCommand(newImages()), newFleetCommand(time.Now), newInitCommand(newInit()), newIAMPolicyCommand(), newVersionCommand(), newReferenceCommand())
	for _, cmd := range root.Commands() {
		printUsageOnError(cmd)
		addQuiet(cmd)
	}
	root.InitDefaultVersionFlag()
	showBoolsPlainly(root)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		showBoolsPlainly(cmd) // cobra adds flags when it runs
		help(cmd, args)
	})
	return root
}

// newClusterCommands returns the commands that accept kubectl's flags.
func newClusterCommands(kubeconfig *genericclioptions.ConfigFlags) []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(kubeconfig),
		newPlanCommand(kubeconfig),
		newDiffCommand(kubeconfig),
		newSnapshotCommand(kubeconfig),
		newAdoptCommand(kubeconfig),
		newUpgradeCommand(kubeconfig),
		newGetCommand(kubeconfig),
		newStatusCommand(kubeconfig),
		newTreeCommand(kubeconfig),
		newOwnersCommand(kubeconfig),
		newDriftCommand(kubeconfig),
		newEventsCommand(kubeconfig),
		newWhyCommand(kubeconfig),
		newHistoryCommand(kubeconfig),
		newTeardownCommand(kubeconfig, byUser(), startStandIn),
		newVerifyCommand(kubeconfig, byUser()),
		newSmokeCommand(kubeconfig, byUser()),
		newDoctorCommand(kubeconfig, newDoctor()),
		newBootstrapCommand(kubeconfig),
		newMigrateCommand(kubeconfig),
		newAuditCommand(kubeconfig, newAuditor()),
		newLogsCommand(kubeconfig),
		newReconcileCommand(kubeconfig),
		newSuspendCommand(kubeconfig),
		newResumeCommand(kubeconfig),
		newRolloutCommand(kubeconfig),
		newResumeRolloutCommand(kubeconfig),
		newApproveCommand(kubeconfig),
		newCalendarCommand(kubeconfig),
		newEmergencyCommand(kubeconfig),
		newIdentityCommand(kubeconfig),
	}
}

// addQuiet adds the flag --quiet to a command.
func addQuiet(cmd *cobra.Command) {
	run := cmd.RunE
	if run == nil || cmd.Name() == "run" {
		return // the daemon logs
	}
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print nothing on stderr but errors")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *quiet {
			cmd.SetErr(io.Discard)
		}
		return run(cmd, args)
	}
}

// printUsageOnError makes a command and its subcommands print their usage if they are called incorrectly.
func printUsageOnError(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		printUsageOnError(sub)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd: cmd, err: err} })
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{cmd: cmd, err: err}
			}
			return nil
		}
	}
}

// withoutClusterFlags returns the usage template of a command that does not access a cluster: it omits kubectl's flags, which
// the root command defines.
func withoutClusterFlags(usage string) string {
	before, after, _ := strings.Cut(strings.ReplaceAll(usage, ".LocalFlags.", ".LocalNonPersistentFlags."),
		"{{if .HasAvailableInheritedFlags}}")
	_, after, _ = strings.Cut(after, "{{end}}")
	return before + after
}

// usageError reports that a command was called incorrectly, and how to call it.
type usageError struct {
	cmd *cobra.Command
	err error
}

// Error returns the mistake, and the correct usage.
func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nUsage: %s\n`%s --help` has more", e.err, e.cmd.UseLine(), e.cmd.CommandPath())
}

// Unwrap returns the mistake.
func (e *usageError) Unwrap() error { return e.err }

// plainBool is a boolean flag that help shows as --watch: pflag shows values that have IsBoolFlag as
// --watch[=true|false]. Both are parsed alike.
type plainBool struct{ value pflag.Value }

// String returns the flag's value.
func (b plainBool) String() string { return b.value.String() }

// Set sets the flag's value.
func (b plainBool) Set(value string) error { return b.value.Set(value) }

// Type returns the type of a boolean flag.
func (b plainBool) Type() string { return b.value.Type() }

// showBoolsPlainly makes help show the boolean flags of a command, and of its subcommands, without their values.
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

// mistakes returns the lines of a message about a commit, each mistake once: if the message has several lines, the first one is
// a summary for places with little room, which repeats the first mistake and the number of others.
func mistakes(message string) []string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	if len(lines) > 1 && repeats(lines[0], lines[1]) {
		return lines[1:]
	}
	return lines
}

// repeats reports whether a line is the beginning of the next one, apart from "(and 2 more)".
func repeats(first, next string) bool {
	if at := strings.LastIndex(first, " (and "); at > 0 && strings.HasSuffix(first, " more)") {
		first = first[:at]
	}
	return strings.HasPrefix(next, strings.TrimSuffix(first, "…"))
}

// printRefusals prints what the daemon does not do, and why.
func (r planReport) printRefusals(out io.Writer) {
	refused := func(why string) string {
		return redact.Visible(strings.TrimPrefix(strings.TrimPrefix(why, "refused: "), "refused, "))
	}
	switch {
	case r.Waits:
		fmt.Fprintln(out, "waits: "+redact.Visible(strings.TrimPrefix(r.Stopped, "waiting for ")))
	case r.Stopped != "":
		lines := mistakes(refused(r.Stopped))
		if len(lines) == 1 {
			fmt.Fprintln(out, "refused as a whole: "+lines[0])
			break
		}
		fmt.Fprintln(out, strings.Join(lines, "\n"))
		fmt.Fprintln(out, "refused as a whole: "+english.Plural(len(lines), "error", ""))
	}
	if r.ChartsRefused != "" {
		fmt.Fprintln(out, "the charts are not changed: "+refused(r.ChartsRefused))
	}
}
