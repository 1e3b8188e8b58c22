package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	predicateType = "https://slsa.dev/provenance/v1"
	// buildType is the URL that explains the parameters.
	buildType = "https://github.com/plumbline-dev/plumbline/blob/main/CONTRIBUTING.md#releases"
)

// build is one run of .ci/release.
type build struct {
	Repository, Ref, Commit, Kind string
	Go, Goreleaser                string
	Builder, Invocation           string
}

// subjectsOf returns the files in a text in sha256sum's format, and checksums.txt itself.
func subjectsOf(checksums []byte) ([]*intoto.ResourceDescriptor, error) {
	var subjects []*intoto.ResourceDescriptor
	for line := range strings.Lines(string(checksums)) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if decoded, err := hex.DecodeString(sum); err != nil || !found || len(decoded) != sha256.Size {
			return nil, fmt.Errorf("%q is no SHA-256 and a name", line)
		}
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	if len(subjects) == 0 {
		return nil, fmt.Errorf("it names no file")
	}
	sum := sha256.Sum256(checksums)
	return append(subjects,
		&intoto.ResourceDescriptor{Name: "checksums.txt", Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}), nil
}

// statement returns the JSON of an in-toto statement about the subjects.
func (b build) statement(subjects []*intoto.ResourceDescriptor) ([]byte, error) {
	parameters, err := structpb.NewStruct(map[string]any{"repository": b.Repository, "ref": b.Ref, "command": ".ci/release " + b.Kind})
	if err != nil {
		return nil, err
	}
	made := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:          buildType,
			ExternalParameters: parameters,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+" + b.Repository + "@" + b.Ref, Digest: map[string]string{"gitCommit": b.Commit}},
				{Uri: "pkg:golang/std@" + strings.TrimPrefix(b.Go, "go"), Name: "go"},
				{Uri: "pkg:golang/github.com/goreleaser/goreleaser/v2@" + b.Goreleaser, Name: "goreleaser"},
			},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: b.Builder}},
	}
	if b.Invocation != "" {
		made.RunDetails.Metadata = &provenance.BuildMetadata{InvocationId: b.Invocation}
	}
	if err := made.Validate(); err != nil {
		return nil, fmt.Errorf("the provenance: %w", err)
	}
	text, err := protojson.Marshal(made)
	if err != nil {
		return nil, err
	}
	predicate := &structpb.Struct{}
	if err := protojson.Unmarshal(text, predicate); err != nil {
		return nil, err
	}
	whole := &intoto.Statement{Type: intoto.StatementTypeUri, Subject: subjects, PredicateType: predicateType, Predicate: predicate}
	if err := whole.Validate(); err != nil {
		return nil, fmt.Errorf("the statement: %w", err)
	}
	return stable(whole)
}

// stable encodes a message as JSON that is always the same: protojson varies its blanks on purpose.
func stable(message proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
