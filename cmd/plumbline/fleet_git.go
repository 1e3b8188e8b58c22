package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

const (
	// maxFleetHistory limits the commits that are read of the branch.
	maxFleetHistory = 1000
	// recordRefs and recordBranches are where the clusters' records are in a clone.
	recordRefs, recordBranches = "refs/plumbline/", "refs/plumbline-branches/"
)

// read returns the report of a clone.
func (o *fleetOptions) read(ctx context.Context) (*fleetReport, error) {
	c, tip, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	now := o.now()
	history, subjects, err := c.history(ctx, tip)
	if err != nil {
		return nil, err
	}
	envelopes, err := c.records(ctx)
	if err != nil {
		return nil, err
	}
	keys, floors, err := o.keys()
	if err != nil {
		return nil, err
	}
	r := &fleetReport{Branch: c.branch, At: now, Verified: keys != nil, Subjects: subjects}
	r.Fleet, err = promotion.Overview(history, standings(envelopes, keys, now), floors, now)
	if err != nil {
		return nil, fmt.Errorf("%s of branch %s: %w", promotion.File, c.branch, err)
	}
	return r, nil
}

// open opens the clone, fetches, and returns the commit at the tip of the branch.
func (o *fleetOptions) open(ctx context.Context) (*clone, string, error) {
	c, err := openClone(ctx, o.repo)
	if err != nil {
		if o.branch == "" {
			return nil, "", err
		}
		c = &clone{root: o.repo, remote: "origin"}
	}
	c.branch, c.remote = cmp.Or(o.branch, c.branch), cmp.Or(o.remote, c.remote)
	if !o.offline {
		_, err := c.git(ctx, "fetch", "--quiet", "--no-tags", "--prune", c.remote, "+refs/plumbline/*:"+recordRefs+"*",
			"+refs/heads/plumbline/records/*:"+recordBranches+"*")
		if err == nil {
			_, err = c.git(ctx, "fetch", "--quiet", "--no-tags", c.remote, "+refs/heads/"+c.branch+":refs/remotes/"+c.remote+"/"+c.branch)
		}
		if err != nil {
			return nil, "", fmt.Errorf("fetch branch %s and the records from %s (or give --offline): %w", c.branch, c.remote, err)
		}
	}
	for _, name := range []string{"refs/remotes/" + c.remote + "/" + c.branch, "refs/heads/" + c.branch} {
		if tip, err := c.git(ctx, "rev-parse", "--verify", "--quiet", name+"^{commit}"); err == nil {
			return c, tip, nil
		}
	}
	return nil, "", fmt.Errorf("%s has no branch %s: give --branch and --remote", o.repo, c.branch)
}

// batch runs git cat-file for some names, and returns the type and content of each; one that does not exist is empty.
func (c *clone) batch(ctx context.Context, names []string) (kinds []string, contents [][]byte, err error) {
	cmd := exec.CommandContext(ctx, "git", "cat-file", "--batch")
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.root, strings.NewReader(strings.Join(names, "\n")+"\n"), &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("git cat-file: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	rest := out.Bytes()
	for range names {
		header, after, found := bytes.Cut(rest, []byte("\n"))
		fields := strings.Fields(string(header))
		switch {
		case !found:
			return nil, nil, errors.New("git cat-file: the output is incomplete")
		case strings.HasSuffix(string(header), " missing") || len(fields) != 3:
			kinds, contents, rest = append(kinds, ""), append(contents, nil), after
			continue
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size+1 > len(after) {
			return nil, nil, errors.New("git cat-file: the output is incomplete")
		}
		kinds, contents, rest = append(kinds, fields[1]), append(contents, after[:size]), after[size+1:]
	}
	return kinds, contents, nil
}

// history returns the history of the branch with the rings of each commit, and the commits' subjects.
func (c *clone) history(ctx context.Context, tip string) (*promotion.History, map[string]string, error) {
	list, err := c.git(ctx, "log", "--format=%H%x00%P%x00%ct%x00%T%x00%s", "-n", strconv.Itoa(maxFleetHistory), tip)
	if err != nil {
		return nil, nil, err
	}
	var commits []promotion.Commit
	var names []string
	subjects := map[string]string{}
	for line := range strings.SplitSeq(list, "\n") {
		fields := strings.SplitN(line, "\x00", 5)
		if len(fields) != 5 {
			continue
		}
		at, _ := strconv.ParseInt(fields[2], 10, 64) // git prints digits
		commits = append(commits, promotion.Commit{
			Hash: fields[0], Parents: strings.Fields(fields[1]), At: time.Unix(at, 0).UTC(), Inputs: fields[3],
		})
		names, subjects[fields[0]] = append(names, fields[0]+":"+promotion.File), fields[4]
	}
	kinds, files, err := c.batch(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	parsed := map[string]promotion.Commit{}
	for i, kind := range kinds {
		if kind != "blob" {
			continue
		}
		known, is := parsed[string(files[i])]
		if !is {
			known.Rings, known.Invalid = promotion.Parse(promotion.File, files[i])
			parsed[string(files[i])] = known
		}
		commits[i].Rings, commits[i].Invalid = known.Rings, known.Invalid
	}
	return promotion.NewHistory(tip, commits), subjects, nil
}

// records returns the commits that the references of records point to.
func (c *clone) records(ctx context.Context) (map[promotion.Member][]promotion.Envelope, error) {
	list, err := c.git(ctx, "for-each-ref", "--format=%(objectname) %(refname)", recordRefs, recordBranches)
	if err != nil || list == "" {
		return nil, err
	}
	var hashes []string
	var members []promotion.Member
	for line := range strings.SplitSeq(list, "\n") {
		hash, name, _ := strings.Cut(line, " ")
		name = strings.TrimPrefix(strings.TrimPrefix(name, recordRefs), recordBranches)
		cluster, nodeSync, both := strings.Cut(name, "/")
		if both {
			hashes, members = append(hashes, hash), append(members, promotion.Member{Cluster: cluster, NodeSync: nodeSync})
		}
	}
	kinds, contents, err := c.batch(ctx, hashes)
	if err != nil {
		return nil, err
	}
	all := map[promotion.Member][]promotion.Envelope{}
	for i, m := range members {
		e := promotion.Envelope{Hash: hashes[i], Data: contents[i]}
		if kinds[i] != "commit" {
			e = promotion.Envelope{Hash: hashes[i], Problem: "the reference does not point to a commit"}
		}
		all[m] = append(all[m], e)
	}
	return all, nil
}

// keys returns the keys and floors of the NodeSyncs in files; nil keys if there are none.
func (o *fleetOptions) keys() (map[promotion.Member]signature.Keys, map[promotion.Member]promotion.Floor, error) {
	var keys map[promotion.Member]signature.Keys
	floors := map[promotion.Member]promotion.Floor{}
	for _, name := range o.nodeSyncs {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		sync := &v1alpha1.NodeSync{}
		if err := yaml.Unmarshal(data, sync); err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", name, err)
		}
		spec := sync.Spec.Promotion
		if sync.Kind != "NodeSync" || spec == nil {
			return nil, nil, fmt.Errorf("%s contains no NodeSync with spec.promotion", name)
		}
		found, err := fetch.ClusterKeys(spec)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if keys == nil {
			keys = map[promotion.Member]signature.Keys{}
		}
		for m, of := range found {
			keys[m] = of
		}
		floors[fetch.MemberOf(sync)] = promotion.Floor{Ring: spec.Ring, MinSoak: spec.GetMinSoak()}
	}
	return keys, floors, nil
}

// standings opens the records; without keys, it shows what they claim.
func standings(envelopes map[promotion.Member][]promotion.Envelope, keys map[promotion.Member]signature.Keys, now time.Time) promotion.Records {
	if keys != nil {
		records, _ := promotion.Read(envelopes, keys, nil, now)
		return records
	}
	records := promotion.Records{}
	for m, all := range envelopes {
		for _, e := range all {
			r, err := e.Claim(m)
			switch known := records[m]; {
			case err != nil && known.Record == nil:
				records[m] = promotion.Standing{Problem: err.Error()}
			case err == nil && (known.Record == nil || r.Serial > known.Record.Serial):
				records[m] = promotion.Standing{Record: &r}
			}
		}
	}
	return records
}

// ringNames returns the rings of the clone's rings.yaml, for completion.
func ringNames(folder string) []string {
	data, err := os.ReadFile(folder + "/" + promotion.File)
	if err != nil {
		return nil
	}
	rings, err := promotion.Parse(promotion.File, data)
	if err != nil {
		return nil
	}
	var all []string
	for _, r := range rings.Rings {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return all
}
