package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	embedded "github.com/plumbline-dev/plumbline/examples"
	"github.com/plumbline-dev/plumbline/provision/nodegroup"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// ciFile is the CI file of a kind of Git host.
type ciFile struct {
	// example is its name in examples/ci. to is where the host reads it; if there is such a file already, beside is where
	// to write it.
	example, to, beside string
	// tokens are the environment variables that may have a token of the host.
	tokens string
}

// ciFiles are the CI files by the kind of host.
var ciFiles = map[string]ciFile{
	"github":  {"github-actions.yaml", ".github/workflows/plumbline-plan.yaml", "", "GITHUB_TOKEN GH_TOKEN"},
	"gitlab":  {"gitlab-ci.yaml", ".gitlab-ci.yml", ".gitlab/plumbline-plan.yaml", "GITLAB_TOKEN"},
	"gitea":   {"gitea-actions.yaml", ".gitea/workflows/plumbline-plan.yaml", "", "GITEA_TOKEN"},
	"forgejo": {"gitea-actions.yaml", ".forgejo/workflows/plumbline-plan.yaml", "", "FORGEJO_TOKEN GITEA_TOKEN"},
}

// scpLike is ssh's short form of an address, such as git@github.com:acme/fleet.git.
var scpLike = regexp.MustCompile(`^(?:[^@/:]+@)?([^@/:]+):([^:/].*)$`)

// webAddress returns the address of a repository's page for the address of a remote; empty if it has none.
func webAddress(remote string) string {
	if short := scpLike.FindStringSubmatch(remote); short != nil && !strings.Contains(remote, "://") {
		return "https://" + short[1] + "/" + strings.TrimSuffix(short[2], ".git")
	}
	u, err := url.Parse(remote)
	if err != nil || u.Host == "" {
		return ""
	}
	switch u.Scheme {
	case "http", "https":
		return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, ".git")
	case "ssh":
		return "https://" + u.Hostname() + strings.TrimSuffix(u.Path, ".git")
	}
	return ""
}

// providerOf returns the kind of a Git host by its name; empty if that is unknown.
func providerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	switch {
	case host == "github.com" || strings.HasPrefix(host, "github."):
		return "github"
	case host == "codeberg.org":
		return "forgejo"
	}
	for _, kind := range []string{"gitlab", "forgejo", "gitea"} {
		if strings.Contains(host, kind) {
			return kind
		}
	}
	return ""
}

// remoteOf returns the address of the page of the remote of a clone; empty if there is none.
func remoteOf(ctx context.Context, root string) string {
	c := &clone{root: root}
	branch, err := c.git(ctx, "symbolic-ref", "--short", "HEAD")
	if err != nil {
		branch = "HEAD"
	}
	remote, err := c.git(ctx, "config", "branch."+branch+".remote")
	if err != nil {
		remote = "origin" // git's default
	}
	address, err := c.git(ctx, "remote", "get-url", remote)
	if err != nil {
		return ""
	}
	return webAddress(address)
}

// addPipeline adds the CI file for the kind of the Git host.
func (r *initReport) addPipeline(ctx context.Context, o initOptions, folder string) {
	provider := cmp.Or(o.provider, providerOf(remoteOf(ctx, r.Root)))
	of, known := ciFiles[provider]
	if !known {
		r.note(nodegroup.Info, "CI", "no pipeline is written, because the kind of the Git host is unknown: give --provider, or copy one of examples/ci")
		return
	}
	text, err := pipelineText(of.example, folder, path.Base(folder))
	if err != nil {
		r.note(nodegroup.Info, "CI", "no pipeline is written: %v", err)
		return
	}
	name := of.to
	if exists(path.Join(r.Root, name)) && of.beside != "" {
		name = of.beside
		r.note(nodegroup.Decide, name, "include it in %s, which exists", of.to)
	}
	if exists(path.Join(r.Root, name)) {
		r.note(nodegroup.Info, name, "it exists, and is not changed")
		return
	}
	r.Files = append(r.Files, initFile{File: nodegroup.File{Name: name, Text: text}})
	r.note(nodegroup.Decide, name, "set PLUMBLINE_VERSION and PLUMBLINE_SHA256 as in the release that you have verified, and commit a snapshot (plumbline snapshot)")
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// pipelineText returns an example for a folder.
func pipelineText(example, folder, cluster string) (string, error) {
	text, err := embedded.CI.ReadFile("ci/" + example)
	if err != nil {
		return "", err
	}
	below := folder + "/"
	if folder == "." {
		below, cluster = "", "cluster"
	}
	return strings.NewReplacer(
		`"clusters/prod-eu/**`, `"`+below+`**`,
		"FOLDER: clusters/prod-eu", "FOLDER: "+folder,
		"snapshots/prod-eu.json.gz", "snapshots/"+cluster+".json.gz",
	).Replace(string(text)), nil
}

// initProposal is a pull request to open.
type initProposal struct {
	provider, address string
	report.Proposal
}

// commit writes the files on a new branch, commits and pushes them, and opens the pull request if the host is known.
func (c initCommand) commit(ctx context.Context, o initOptions, r *initReport) error {
	repository, err := openClone(ctx, r.Root)
	if err != nil {
		return fmt.Errorf("--branch needs a clone of a repository with a branch checked out: %w", err)
	}
	if _, err := repository.git(ctx, "check-ref-format", "--branch", o.branch); err != nil {
		return fmt.Errorf("--branch %q is no name of a branch", o.branch)
	}
	if _, err := repository.git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+o.branch); err == nil {
		return fmt.Errorf("branch %s exists in %s: give the name of a new one", o.branch, r.Root)
	}
	if _, err := repository.git(ctx, "diff", "--cached", "--quiet"); err != nil {
		return fmt.Errorf("%s has staged changes: commit or unstage them first", r.Root)
	}
	if _, err := repository.git(ctx, "switch", "--quiet", "--create", o.branch); err != nil {
		return err
	}
	title, err := r.commitFiles(ctx, repository, o)
	if err != nil {
		return err
	}
	r.Branch = o.branch
	if _, err := repository.git(ctx, "push", "--quiet", "--set-upstream", repository.remote, o.branch); err != nil {
		return fmt.Errorf("the commit is on branch %s, and was not pushed: git -C %s push --set-upstream %s %[1]s: %[4]w", o.branch, r.Root, repository.remote, err)
	}
	r.Pushed = true
	address := remoteOf(ctx, r.Root)
	proposal := initProposal{
		provider: cmp.Or(o.provider, providerOf(address)), address: address,
		Proposal: report.Proposal{Branch: o.branch, Base: repository.branch, Title: title, Body: r.body()},
	}
	r.PullRequest, err = c.propose(ctx, proposal)
	if err != nil {
		return fmt.Errorf("branch %s is pushed, and no pull request was opened: %w", o.branch, err)
	}
	return nil
}

// commitFiles writes and commits the files, and returns the title of the commit. If they cannot be written, the clone is on
// its former branch again.
func (r *initReport) commitFiles(ctx context.Context, repository *clone, o initOptions) (title string, err error) {
	if err := r.write(); err != nil {
		_, back := repository.git(ctx, "switch", "--quiet", repository.branch)
		_, gone := repository.git(ctx, "branch", "--quiet", "--delete", o.branch)
		return "", errors.Join(err, back, gone)
	}
	names := []string{"--"}
	for _, file := range r.Files {
		names = append(names, file.Name)
	}
	if _, err := repository.git(ctx, append([]string{"add"}, names...)...); err != nil {
		return "", err
	}
	title = "Add the first definitions of " + r.Cluster
	if len(o.make.From) > 0 {
		title = fmt.Sprintf("Add nodes like those of node group %s to %s", strings.Join(o.make.From, ", "), r.Cluster)
	}
	if _, err := repository.git(ctx, append([]string{"commit", "--quiet", "--message", title}, names...)...); err != nil {
		return "", fmt.Errorf("commit on branch %s: %w", o.branch, err)
	}
	return title, nil
}

// body returns the text of the pull request, in Markdown.
func (r *initReport) body() string {
	var b strings.Builder
	b.WriteString("Written by `plumbline init` from what exists in AWS. The plan of this pull request shows its effect.\n")
	for _, n := range r.Notes {
		at := n.Object
		if n.Field != "" {
			at += " " + n.Field
		}
		fmt.Fprintf(&b, "\n- %s: %s: %s", n.Kind, report.Code(at), report.Code(oneLine(n.Text)))
	}
	return b.String() + "\n"
}

// proposeByToken opens a pull request with a token of the environment; without one it opens none.
func proposeByToken(ctx context.Context, p initProposal) (string, error) {
	token := ""
	for name := range strings.FieldsSeq(ciFiles[p.provider].tokens) {
		token = cmp.Or(token, os.Getenv(name))
	}
	if token == "" || p.address == "" {
		return "", nil
	}
	hosts := &report.Hosts{Now: time.Now}
	to, err := hosts.Proposer(p.provider, p.address, map[string][]byte{"token": []byte(token)})
	if err != nil {
		return "", err
	}
	made, err := to.Propose(ctx, p.Proposal)
	if err != nil {
		return "", err
	}
	return made.URL, nil
}
