package kube

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files of the audit log, in a control plane's folder.
const (
	auditPolicyFile = "audit-policy.yaml"
	auditLogFile    = "audit.log"
)

// auditPolicy logs every write to the objects that stories count once, when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
    resources:
      - {group: karpenter.sh}
      - {group: karpenter.k8s.aws}
      - {group: plumbline.dev}
      - {group: apiextensions.k8s.io}
      - {group: apps, resources: [deployments]}
`

// auditEverything also logs every request of some users; auditNothing is the end of a policy.
const (
	auditEverything = `  - level: Metadata
    users: [%s]
`
	auditNothing = `  - level: None
`
)

// counted are the groups of the objects whose writes stories count. In apps, only Deployments.
var counted = []string{"karpenter.sh", "karpenter.k8s.aws", "plumbline.dev", "apiextensions.k8s.io"}

// Writes reports whether a request is a write that stories count.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return slices.Contains(counted, r.Group) || r.Group == "apps" && r.Resource == "deployments"
	}
	return false
}

// Request is a request in the API server's audit log.
type Request struct {
	Time        time.Time // of the response
	User        string
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int // of the response
}

// Write is a Request to change something.
type Write = Request

// String returns the request as "patch nodepools.karpenter.sh/general: 200".
func (r Request) String() string {
	what := r.Resource + "." + r.Group + "/" + r.Name
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s: %d", r.Verb, what, r.Code)
}

// auditEvent is the relevant part of an audit.k8s.io/v1 Event.
type auditEvent struct {
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct{ Namespace, Name, APIGroup, Resource, Subresource string }

	ResponseStatus struct{ Code int }
	StageTimestamp time.Time
}

func (c *ControlPlane) writeAuditPolicy() error {
	policy := c.options.AuditPolicy
	if policy == "" {
		policy = auditPolicy
		if users := c.options.AuditUsers; len(users) > 0 {
			policy += fmt.Sprintf(auditEverything, `"`+strings.Join(users, `", "`)+`"`)
		}
		policy += auditNothing
	}
	if err := os.WriteFile(filepath.Join(c.options.Dir, auditPolicyFile), []byte(policy), 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	return nil
}

func (c *ControlPlane) auditFlags() []string {
	return []string{
		"--audit-policy-file=" + filepath.Join(c.options.Dir, auditPolicyFile),
		"--audit-log-path=" + filepath.Join(c.options.Dir, auditLogFile),
	}
}

// Writes returns all writes so far to NodePools, NodeClaims, EC2NodeClasses, NodeSyncs, CRDs and Deployments, in the
// order of their responses, including denied ones. With Options.AuditPolicy, it returns what that has logged.
func (c *ControlPlane) Writes() ([]Write, error) {
	all, _, err := c.Audit(0)
	if c.options.AuditPolicy == "" {
		all = slices.DeleteFunc(all, func(r Request) bool { return !r.Writes() })
	}
	return all, err
}

// Audit returns the requests in the audit log from a byte on, and the byte after the last one, from which to continue.
func (c *ControlPlane) Audit(from int64) (requests []Request, next int64, err error) {
	file, err := os.Open(filepath.Join(c.options.Dir, auditLogFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, from, nil // nothing has been logged yet
	}
	if err != nil {
		return nil, from, fmt.Errorf("read the API server's audit: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, from, fmt.Errorf("read the API server's audit: %w", err)
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // an incomplete line is still being written
			return requests, from, nil
		}
		if err != nil {
			return nil, from, fmt.Errorf("read the API server's audit: %w", err)
		}
		from += int64(len(line))
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, from, fmt.Errorf("read the API server's audit: %w: %s", err, line)
		}
		requests = append(requests, Request{
			Time: e.StageTimestamp, User: e.User.Username, Verb: e.Verb, URI: e.RequestURI, Code: e.ResponseStatus.Code,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		})
	}
}
