package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWrongArguments(t *testing.T) {
	kubeconfig, _ := unreachable(t)
	cases := map[string]struct {
		args []string
		says string
	}{
		"unknown command":         {[]string{"destroy"}, `unknown command "destroy"`},
		"unknown flag":            {[]string{"get", "--force"}, "unknown flag: --force\nUsage: plumbline get [NODESYNC...]"},
		"unknown format":          {[]string{"get", "-o", "xml"}, `"xml" is not one of table, wide, name, json, yaml, go-template`},
		"unknown format, render":  {[]string{"render", ".", "-o", "wide"}, `"wide" is not one of table, json, yaml`},
		"render without a path":   {[]string{"render"}, "accepts 1 arg(s), received 0\nUsage: plumbline render PATH"},
		"plan of two":             {[]string{"plan", "a", "b"}, "accepts 1 arg(s), received 2"},
		"status without a name":   {[]string{"status"}, "requires at least 1 arg(s), only received 0\nUsage: plumbline status NODESYNC..."},
		"a name and all":          {[]string{"get", "prod", "-A"}, "a name and --all-namespaces cannot be combined"},
		"another kind":            {[]string{"status", "pod/web", "--kubeconfig", kubeconfig}, "pod/web is no name of a NodeSync: give NAME or nodesync/NAME"},
		"a kind and no name":      {[]string{"suspend", "nodesync/", "--kubeconfig", kubeconfig}, "nodesync/ names no NodeSync"},
		"to watch JSON":           {[]string{"get", "--watch", "-o", "json"}, "--watch prints a table"},
		"to watch a name in all":  {[]string{"get", "--watch", "-A", "prod"}, "a name and --all-namespaces cannot be combined"},
		"a template that is none": {[]string{"get", "-o", "jsonpath={.items"}, "unclosed action"},
		"no kubeconfig":           {[]string{"get", "--kubeconfig", "absent"}, "absent"},
		"no folder":               {[]string{"render", "absent"}, "absent is not a folder"},
		"plan of no folder":       {[]string{"plan", "./absent"}, "./absent is neither a folder nor a valid name of a NodeSync"},
		"a file":                  {[]string{"render", "main.go"}, "main.go is not a folder"},
		"a wait that is no time":  {[]string{"reconcile", "a", "--wait-timeout", "long"}, "invalid argument"},
		"upgrade of two":          {[]string{"upgrade", "a", "b"}, "accepts at most 1 arg(s), received 2"},
		"upgrade of no folder":    {[]string{"upgrade", "absent"}, "absent is not a folder"},
		"a folder, and from":      {[]string{"upgrade", ".", "--from", "1.8.6"}, "a folder and --from cannot be combined"},
		"from, and write":         {[]string{"upgrade", "--from", "1.8.6", "--write"}, "none of the others can be"},
		"to no version":           {[]string{"upgrade", "--from", "1.8.6", "--to", "newest"}, `version of karpenter is "newest": give one full version`},
		"adopt of two":            {[]string{"adopt", "a", "b"}, "accepts at most 1 arg(s), received 2"},
		"adopt of no folder":      {[]string{"adopt", "absent"}, "absent is not a folder"},
		"vendor of two":           {[]string{"vendor", "a", "b"}, "accepts at most 1 arg(s), received 2"},
		"vendor of no folder":     {[]string{"vendor", "absent"}, "absent is not a folder"},
		"verify by two names":     {[]string{"verify", "--gone", "prod", "--cluster", "demo"}, "a NodeSync and --cluster cannot be combined"},
		"verify of no region":     {[]string{"verify", "--gone", "--cluster", "demo"}, "--cluster needs --region"},
		"verify of no cluster":    {[]string{"verify", "--gone", "--region", "eu-west-1"}, "--region needs --cluster"},
		"init of no cluster":      {[]string{"init"}, "give the name of the EKS cluster"},
		"doctor by two names":     {[]string{"doctor", "prod", "--cluster", "demo"}, "a NodeSync and --cluster cannot be combined"},
		"doctor of no region":     {[]string{"doctor", "--cluster", "demo"}, "--cluster needs --region"},
		"doctor of no check":      {[]string{"doctor", "prod", "--only", "all"}, `no check is named "all": want one of controller-role,`},
		"run with an argument":    {[]string{"run", "now"}, "unknown command"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, c.args...)
			if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, prints %q, says %q", got.code, got.out, got.err)
			}
		})
	}
}

// TestHelp checks that each command's help contains what users look for.
func TestHelp(t *testing.T) {
	words := map[string][]string{
		"plumbline":                {"in sync with Git", "Exit codes", "--kubeconfig"},
		"plumbline run":            {"daemon", "SIGTERM", "--leader-elect", "--cache-dir", "--watch-namespace"},
		"plumbline render":         {"without a cluster or network", "--crds", "table|json|yaml"},
		"plumbline plan":           {"change nothing", "--against", "Exit codes"},
		"plumbline diff":           {"unified diff", "change nothing", "--against", "--exit-code", "Exit codes"},
		"plumbline snapshot":       {"--what-if", "no Secrets and no\nConfigMaps", "--aws", "changes nothing"},
		"plumbline adopt":          {"adopts it", "only reads", "--write", "changes nothing else", "Exit codes"},
		"plumbline upgrade":        {"each hop", "--to", "--write", "changes\nnothing else", "Exit codes"},
		"plumbline convert":        {"v1beta1", "changes nothing", "--write", "--copy-classes", "Exit codes"},
		"plumbline iam-policy":     {"6,144", "--node-role", "--teardown", "table|json|yaml|cloudformation|terraform", "Examples:"},
		"plumbline bootstrap":      {"one CloudFormation stack", "--discovery-tags", "plumbline init", "--git", "--upgrade", "--undo", "--dry-run", "table|cloudformation|terraform", "Exit codes"},
		"plumbline images":         {"newest one", "--kubernetes", "table|json|yaml|markdown", "ssm:GetParameter", "Exit codes"},
		"plumbline fleet":          {"No cluster is queried", "--nodesync", "--offline", "table|json|yaml|markdown|html", "Exit codes"},
		"plumbline init":           {"never overwrites a file", "--from", "--branch", "--dry-run", "eks:DescribeNodegroup", "Examples:"},
		"plumbline migrate":        {"one node at a time", "--keep", "--back", "PodDisruptionBudgets", "--dry-run", "Ctrl-C", "--migrate", "Exit codes", "Examples:"},
		"plumbline vendor":         {"cannot reach a registry", "--write", "--to", "--from", "docker login"},
		"plumbline get":            {"List the NodeSyncs", "--all-namespaces", "-A", "--watch", "jsonpath"},
		"plumbline status":         {"stages", "removals", "--watch", "Exit codes"},
		"plumbline tree":           {"NodeClaims", "the NodeClaims of each pool", "--watch"},
		"plumbline owners":         {"Flux, Argo CD", "only reads", "Exit codes"},
		"plumbline drift":          {"another client", "corrected", "has found drifted", "markdown", "Exit codes"},
		"plumbline events":         {"events of a NodeSync", "corrected"},
		"plumbline why":            {"For a terminated node", "2,000", "-o json"},
		"plumbline history":        {"newest first", "--since", "--pool", "wide"},
		"plumbline verify":         {"verify [NODESYNC]", "only AWS is queried", "text|json|junit", "iam-policy-verify.json", "Exit codes"},
		"plumbline smoke":          {"one pod for each NodePool", "--pool", "table|json|yaml|junit", "Ctrl-C", "Exit codes"},
		"plumbline doctor":         {"controller-role\n", "changes nothing", "table|json|yaml|junit|markdown", "iam-policy-doctor.json", "Exit codes"},
		"plumbline audit":          {"same-name", "changes nothing", "--name-pattern", "table|json|yaml|markdown", "iam-policy-audit.json", "Exit codes"},
		"plumbline teardown":       {"onDelete: Drain", "Ctrl-C", "Exit codes", "If no daemon leads", "--cluster-gone", "--sweep", "--down-to", "plumbline bootstrap --undo"},
		"plumbline logs":           {"daemon", "--follow", "--since"},
		"plumbline reconcile":      {"now", "--wait", "If you interrupt the command", "Examples:"},
		"plumbline suspend":        {"until it is resumed", "Examples:"},
		"plumbline resume":         {"suspended", "Examples:"},
		"plumbline emergency":      {"spec.guard.windows", "--until", "--reason", "plumbline-emergency", "Examples:"},
		"plumbline identity":       {"cluster's\nname", "--resolved", "--controller-role", "IdentityConflict", "Examples:"},
		"plumbline calendar":       {"spec.guard.windows", "--days", "UTC"},
		"plumbline approve":        {"guard holds", "--digest", "expires", "--wait", "Exit codes"},
		"plumbline rollout":        {"how many of its new nodes", "--watch", "spec.rollout.waves"},
		"plumbline resume-rollout": {"has stopped", "--pool", "resets its count", "--wave", "--reason"},
		"plumbline version":        {"Print the version"},
		"plumbline completion":     {"autocompletion"},
		"plumbline help":           {"help for any command"},
		"plumbline reference":      {"Markdown", "man pages"},
	}
	root := newRootCommand()
	root.InitDefaultCompletionCmd("x")
	root.InitDefaultHelpCmd()
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		want, listed := words[cmd.CommandPath()]
		if !listed {
			t.Errorf("%s: a new command: say here what its help has to tell", cmd.CommandPath())
		}
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		got := plumbline(t, args...)
		if got.code != exitDone {
			t.Errorf("%s: code %d, says %s", cmd.CommandPath(), got.code, got.err)
		}
		for _, w := range want {
			if !strings.Contains(got.out, w) {
				t.Errorf("%s --help does not say %q:\n%s", cmd.CommandPath(), w, got.out)
			}
		}
		if strings.Contains(got.out, "true|false") {
			t.Errorf("%s --help shows values of boolean flags:\n%s", cmd.CommandPath(), got.out)
		}
		if asks := strings.Contains(got.out, "--certificate-authority"); asks != cmd.HasParent() && asks != strings.Contains(got.out, "Cluster Flags") {
			t.Errorf("%s --help has the cluster's flags where it should not, or not in a group:\n%s", cmd.CommandPath(), got.out)
		}
		if listed := strings.Contains(plumbline(t, "--help").out, cmd.Short); cmd != root && listed == cmd.Hidden {
			t.Errorf("plumbline --help lists %q: %t", cmd.Short, listed)
		}
	}
}

// TestVersionOf: the version is that of a release, that of `go install`, or unknown.
func TestVersionOf(t *testing.T) {
	for _, c := range []struct{ built, module, want string }{
		{"v1.2.3", "(devel)", "v1.2.3"},
		{"v1.2.3", "v1.2.4-0.20261123000000-0123456789ab", "v1.2.3"},
		{"dev", "v1.2.3", "v1.2.3"},
		{"dev", "(devel)", "dev"},
		{"dev", "", "dev"},
	} {
		if got := versionOf(c.built, c.module); got != c.want {
			t.Errorf("built %q of module %q: %q, want %q", c.built, c.module, got, c.want)
		}
	}
}

func TestVersion(t *testing.T) {
	got := plumbline(t, "version", "-o", "json")
	var v versions
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitDone {
		t.Fatalf("code %d, %v: %s", got.code, err, got.out)
	}
	if v.Version != version || v.Go != runtime.Version() || v.Karpenter == "" || v.Helm == "" {
		t.Errorf("%+v", v)
	}
	if flag := plumbline(t, "--version"); flag.code != exitDone || flag.out != "plumbline "+version+"\n" {
		t.Errorf("--version: code %d, %q", flag.code, flag.out)
	}
	if table := plumbline(t, "version").out; !strings.HasPrefix(table, "plumbline "+version+" (go") || strings.Count(table, "\n") != 1 {
		t.Errorf("as text: %q", table)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := plumbline(t, "completion", shell)
		if got.code != exitDone || !strings.Contains(got.out, "plumbline") || len(got.out) < 1000 {
			t.Errorf("%s: code %d, %d bytes", shell, got.code, len(got.out))
		}
	}
	got := plumbline(t, cobra.ShellCompRequestCmd, "get", "-o", "")
	if !strings.Contains(got.out, "table\nwide\nname\njson\nyaml\ngo-template\n") {
		t.Errorf("values of -o: %q", got.out)
	}
	kubeconfig, _ := unreachable(t)
	got = plumbline(t, cobra.ShellCompRequestCmd, "--kubeconfig", kubeconfig, "status", "")
	if !strings.Contains(got.out, ":1\n") {
		t.Errorf("names without a cluster: %q", got.out)
	}
}
