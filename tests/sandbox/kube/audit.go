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
	"time"
)

// The files of the audit, in a control plane's folder.
const (
	auditPolicyFile = "audit-policy.yaml"
	auditLogFile    = "audit.log"
)

// auditPolicy has every write to the objects that stories count noted once,
// when it is answered.
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
  - level: None
`

// Write is one request of someone to change an object, as the API server's
// audit has it.
type Write struct {
	Time        time.Time
	User        string
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int // of the answer
}

// String is "patch nodepools.karpenter.sh/general: 200".
func (w Write) String() string {
	what := w.Resource + "." + w.Group + "/" + w.Name
	if w.Subresource != "" {
		what += "/" + w.Subresource
	}
	return fmt.Sprintf("%s %s: %d", w.Verb, what, w.Code)
}

// auditEvent is what is read of an audit.k8s.io/v1 Event.
type auditEvent struct {
	Verb       string
	RequestURI string
	User       struct{ Username string }
	ObjectRef  struct{ Namespace, Name, APIGroup, Resource, Subresource string }

	ResponseStatus struct{ Code int }
	StageTimestamp time.Time
}

func (c *ControlPlane) writeAuditPolicy() error {
	if err := os.WriteFile(filepath.Join(c.options.Dir, auditPolicyFile), []byte(auditPolicy), 0o600); err != nil {
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

// Writes are all writes so far to NodePools, NodeClaims, EC2NodeClasses,
// NodeSyncs, CRDs and Deployments, in the order in which they were answered,
// refused ones too.
func (c *ControlPlane) Writes() ([]Write, error) {
	file, err := os.Open(filepath.Join(c.options.Dir, auditLogFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing has been written yet
	}
	if err != nil {
		return nil, fmt.Errorf("read the API server's audit: %w", err)
	}
	defer func() { _ = file.Close() }()
	var all []Write
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without an end is still being written
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the API server's audit: %w", err)
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read the API server's audit: %w: %s", err, line)
		}
		all = append(all, Write{
			Time: e.StageTimestamp, User: e.User.Username, Verb: e.Verb, URI: e.RequestURI, Code: e.ResponseStatus.Code,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		})
	}
}
