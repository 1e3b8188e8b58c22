package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/audit"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/redact"
)

// contextTimeout limits a request to the API server of a context: some contexts of a kubeconfig may be out of reach.
const contextTimeout = 20 * time.Second

// allContexts in --contexts are all of the kubeconfig.
const allContexts = "*"

// auditor runs `plumbline audit`.
type auditor struct {
	regions, profiles, contexts []string
	namePattern, cloudTrail     string
	now                         func() time.Time
	// dial connects to AWS in a region, with a profile of the AWS configuration.
	dial func(ctx context.Context, profile, region string) (audit.AWS, error)
}

// newAuditor returns one that queries as the user.
func newAuditor() auditor {
	return auditor{now: time.Now, dial: func(ctx context.Context, profile, region string) (audit.AWS, error) {
		return cloud.New(ctx, cloud.Options{Region: region, Profile: profile, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute})
	}}
}

func newAuditCommand(kubeconfig *genericclioptions.ConfigFlags, a auditor) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Find what clusters share by mistake: a name, a queue, a role, a tag",
		Long: `List the clusters of AWS accounts with their Karpenter controllers, and find what two of them
share by mistake. The command changes nothing.

--regions and --profiles name where to look for EKS clusters: each region is read with each
profile of your AWS configuration, by default with your AWS credentials. --contexts names
the contexts of the kubeconfig whose controllers and EC2NodeClasses are read; '*' is all of
them. A context belongs to the EKS cluster with the same certificate authority.

The command finds
  same-name      two controllers with one name in one account and region
  other-name     a controller with another name than that of its EKS cluster
  shared-queue   an interruption queue that controllers of two clusters read
  shared-role    a role that controllers, or nodes, of two clusters have
  broad-policy   a controller's role that is not restricted to its cluster
  discovery      a discovery tag on what belongs to two clusters; a subnet or a security
                 group that EC2NodeClasses of two clusters select
  termination    with --cloudtrail: instances of one cluster that the role of another cluster's
                 controller has terminated
  name-pattern   a name that does not match --name-pattern, a regular expression

What is denied is unknown, with the missing action. So are the controllers of a cluster that
none of the contexts reaches. The required permissions in AWS are in
manifests/iam-policy-audit.json, that of --cloudtrail in manifests/iam-policy-cloudtrail.json.

Exit codes: 0 nothing is found; 1 an error, or something is unknown and nothing is found;
2 something is found.`,
		Example: `  plumbline audit --regions eu-west-1,us-east-1 --profiles dev,prod --contexts '*'
  plumbline audit --regions eu-west-1 --name-pattern '(dev|prod)-[a-z]+' -o markdown`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd, formatMarkdown)
	cmd.Flags().StringSliceVar(&a.regions, "regions", nil, "regions to read")
	cmd.Flags().StringSliceVar(&a.profiles, "profiles", nil, "profiles of the AWS configuration to read them with; default: your AWS credentials")
	cmd.Flags().StringSliceVar(&a.contexts, "contexts", nil, "contexts of the kubeconfig to read; '*' is all of them")
	cmd.Flags().StringVar(&a.namePattern, "name-pattern", "", "regular expression that the whole name of a cluster has to match")
	cmd.Flags().StringVar(&a.cloudTrail, "cloudtrail", "", "look up who has terminated instances within this time, at most 90d, in CloudTrail")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := a.report(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		if err := writeAudit(cmd.OutOrStdout(), *output, report); err != nil {
			return err
		}
		return exitOfAudit(report)
	}
	return cmd
}

// exitOfAudit returns an exit code for the findings.
func exitOfAudit(report audit.Report) error {
	switch {
	case audit.Found(report.Findings):
		return &exitError{code: exitChanges}
	case audit.Incomplete(report.Findings):
		return &exitError{code: exitFailed, message: "plumbline: something could not be read, so it is unknown whether clusters share something"}
	}
	return nil
}

// report reads the accounts and clusters, and judges them.
func (a *auditor) report(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags) (audit.Report, error) {
	switch {
	case len(a.regions)+len(a.contexts) == 0:
		return audit.Report{}, errors.New("--regions or --contexts is required")
	case a.cloudTrail != "" && len(a.regions) == 0:
		return audit.Report{}, errors.New("--cloudtrail needs --regions")
	case len(a.profiles) > 0 && len(a.regions) == 0:
		return audit.Report{}, errors.New("--profiles needs --regions")
	}
	var pattern *regexp.Regexp
	if a.namePattern != "" {
		var err error
		if pattern, err = regexp.Compile(a.namePattern); err != nil {
			return audit.Report{}, fmt.Errorf("--name-pattern: %w", err)
		}
		pattern.Longest() // so that a match of the whole name is preferred
	}
	reader := audit.Reader{ControllerLabels: cluster.ControllerLabels()}
	period, err := trailPeriod(a.cloudTrail)
	if err != nil {
		return audit.Report{}, err
	}
	if period > 0 {
		reader.Now = a.now()
		reader.Since = reader.Now.Add(-period)
	}
	if reader.Places, err = a.places(ctx); err != nil {
		return audit.Report{}, err
	}
	if reader.Contexts, err = a.connect(ctx, kubeconfig); err != nil {
		return audit.Report{}, err
	}
	observed := reader.Read(ctx)
	if ctx.Err() != nil {
		return audit.Report{}, ctx.Err()
	}
	observed.NamePattern = pattern
	return audit.Report{Clusters: observed.Clusters, Findings: audit.Judge(observed)}, nil
}

// maxTrail is how long CloudTrail keeps calls.
const maxTrail = 90 * 24 * time.Hour

// trailPeriod parses --cloudtrail: a duration, or a number of days such as 90d; 0 if it is empty.
func trailPeriod(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	period, err := time.ParseDuration(text)
	if days, is := strings.CutSuffix(text, "d"); is {
		var n int
		if n, err = strconv.Atoi(days); n <= int(maxTrail/(24*time.Hour)) {
			period = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || period <= 0 || period > maxTrail {
		return 0, fmt.Errorf("--cloudtrail %q: want a time such as 12h, or 1d to 90d", text)
	}
	return period, nil
}

// places connects to each region with each profile.
func (a *auditor) places(ctx context.Context) ([]audit.Place, error) {
	profiles := a.profiles
	if len(profiles) == 0 {
		profiles = []string{""}
	}
	var places []audit.Place
	for _, profile := range profiles {
		for _, region := range a.regions {
			aws, err := a.dial(ctx, profile, region)
			if err != nil {
				return nil, err
			}
			places = append(places, audit.Place{Profile: profile, Region: region, AWS: aws})
		}
	}
	return places, nil
}

// connect returns the contexts, without sending a request.
func (a *auditor) connect(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags) ([]audit.Context, error) {
	if len(a.contexts) == 0 {
		return nil, nil
	}
	raw, err := kubeconfig.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	names := a.contexts
	if slices.Contains(names, allContexts) {
		names = slices.Sorted(maps.Keys(raw.Contexts))
	}
	var all []audit.Context
	for _, name := range names {
		if raw.Contexts[name] == nil {
			return nil, fmt.Errorf("--contexts: the kubeconfig has no context %q", name)
		}
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig, flags.Context, flags.CacheDir, flags.Timeout = kubeconfig.KubeConfig, ptr.To(name), nil, ptr.To(contextTimeout.String())
		c, err := connect(ctx, flags)
		if err != nil {
			return nil, fmt.Errorf("context %s: %w", name, err)
		}
		authority, err := certificateAuthority(c.config)
		if err != nil {
			return nil, fmt.Errorf("context %s: %w", name, err)
		}
		all = append(all, audit.Context{Name: name, Server: c.config.Host, Authority: authority, API: namedReader{c, name}})
	}
	return all, nil
}

// namedReader adds the context's name to errors of its API server.
type namedReader struct {
	client.Reader
	context string
}

// List implements client.Reader.
func (e namedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := e.Reader.List(ctx, list, options...); err != nil {
		return explain(err, "query the API server of context "+e.context)
	}
	return nil
}

// writeAudit prints a report in the format of -o.
func writeAudit(out io.Writer, output format, report audit.Report) error {
	if output == formatMarkdown {
		return report.WriteMarkdown(&display.Visible{Writer: out})
	}
	return output.write(out, report, func(out io.Writer) error {
		printAudit(out, report)
		return nil
	})
}

// printAudit prints the clusters of each account and region, and then each finding in full.
func printAudit(out io.Writer, report audit.Report) {
	rest := report.Clusters
	for len(rest) > 0 {
		account, region := rest[0].Account, rest[0].Region
		n := slices.IndexFunc(rest, func(c audit.Cluster) bool { return c.Account != account || c.Region != region })
		if n < 0 {
			n = len(rest)
		}
		if account == "" {
			fmt.Fprintln(out, "account unknown")
		} else {
			fmt.Fprintf(out, "account %s, %s\n", account, region)
		}
		t := display.NewFittedTable(out, "CLUSTER", "CONTEXT", "KARPENTER", "NAME IN USE", "QUEUE", "ROLE", "ENDPOINT", "TAGS")
		for _, c := range rest[:n] {
			t.AppendRow([]any{
				cmp.Or(c.Name, "-"), cmp.Or(c.Context, "-"), cmp.Or(c.Karpenter(), "-"), redact.VisibleName(cmp.Or(c.Names(), "-")), redact.VisibleName(cmp.Or(c.Queues(), "-")),
				cmp.Or(c.Roles(), "-"), cmp.Or(c.Endpoint, "-"), c.TagList(),
			})
		}
		t.Render()
		fmt.Fprintln(out)
		rest = rest[n:]
	}
	for _, f := range report.Findings {
		fmt.Fprintf(out, "%s: %s\n", f.Kind, redact.Visible(f.Message))
		if f.Fix != "" {
			fmt.Fprintf(out, "  fix: %s\n", redact.Visible(f.Fix))
		}
	}
	if len(report.Findings) == 0 {
		fmt.Fprintln(out, "nothing was found")
	}
}
