package iam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The references to the account that a template or a configuration is applied in.
const (
	accountOfStack    = "${AWS::AccountId}"
	accountOfProvider = "${data.aws_caller_identity.current.account_id}"
)

// ForCloudFormation returns the cluster with the account of the stack, if it has none.
func (c Cluster) ForCloudFormation() Cluster { return c.withAccount(accountOfStack) }

// ForTerraform returns the cluster with the account of the provider, if it has none.
func (c Cluster) ForTerraform() Cluster { return c.withAccount(accountOfProvider) }

func (c Cluster) withAccount(account string) Cluster {
	if c.Account == "" {
		c.Account = account
	}
	return c
}

// sizeOf returns the size of a document as IAM counts it, with references to the account replaced: white space does not
// count, https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
func sizeOf(d Document) int {
	text, err := json.Marshal(d)
	if err != nil {
		return 0 // a Document contains only text
	}
	const account = "000000000000"
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(accountOfStack), []byte(account)), []byte(accountOfProvider), []byte(account))
	return len(bytes.ReplaceAll(text, []byte(" "), nil))
}

// The boundaries of words in a name in camel case: after an abbreviation, and before a capital.
var (
	afterAbbreviation = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`)
	beforeCapital     = regexp.MustCompile(`([a-z\d])([A-Z])`)
)

// Label returns the name of a policy's resource as Terraform's style wants it.
func (p Policy) Label() string {
	const split = "${1}_${2}"
	return strings.ToLower(beforeCapital.ReplaceAllString(afterAbbreviation.ReplaceAllString(p.ResourceName(), split), split))
}

// ResourceName returns the part of a policy's name before the cluster's, as a name of a resource in a template.
func (p Policy) ResourceName() string {
	name, _, _ := strings.Cut(p.Name, "-")
	return name
}

// WriteCloudFormation writes a template with the policies, in YAML.
func WriteCloudFormation(out io.Writer, policies []Policy) error {
	resources := map[string]any{}
	for _, p := range policies {
		document, err := substituted(p.Document)
		if err != nil {
			return err
		}
		resources[p.ResourceName()] = map[string]any{
			"Type":       "AWS::IAM::ManagedPolicy",
			"Properties": map[string]any{"ManagedPolicyName": p.Name, "Description": p.Description, "PolicyDocument": document},
		}
	}
	text, err := yaml.Marshal(map[string]any{"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources})
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// substituted returns a document in which CloudFormation replaces its references.
func substituted(d Document) (any, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	var replace func(any) any
	replace = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				v[key] = replace(one)
			}
		case []any:
			for i, one := range v {
				v[i] = replace(one)
			}
		case string:
			if strings.Contains(v, accountOfStack) {
				return map[string]any{"Fn::Sub": v}
			}
		}
		return v
	}
	return replace(document), nil
}

// WriteTerraform writes a configuration with the policies. JSON is valid as an expression of HCL; the documents contain no
// other ${ than the reference to the account.
func WriteTerraform(out io.Writer, policies []Policy) error {
	var b bytes.Buffer
	for i, p := range policies {
		text, err := json.MarshalIndent(p.Document, "  ", "  ")
		if err != nil {
			return err
		}
		if i == 0 && slices.ContainsFunc(policies, func(p Policy) bool { return p.refers(accountOfProvider) }) {
			b.WriteString("data \"aws_caller_identity\" \"current\" {}\n\n")
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "resource \"aws_iam_policy\" %q {\n  name        = %q\n  description = %q\n  policy = jsonencode(%s)\n}\n",
			p.Label(), p.Name, p.Description, text)
	}
	_, err := b.WriteTo(out)
	return err
}

func (p Policy) refers(text string) bool {
	raw, err := json.Marshal(p.Document)
	return err == nil && bytes.Contains(raw, []byte(text))
}
