package awssim

import (
	"cmp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// parameter is an SSM parameter: an image's name, or whatever a client stores.
type parameter struct {
	name, value, kind string
	version           int64
	modified          time.Time
}

func (a *account) ssmActions() map[string]action {
	return map[string]action{
		"GetParameter":        document(a.getParameter),
		"GetParametersByPath": document(a.getParametersByPath),
		"PutParameter":        document(a.putParameter),
		"DeleteParameter":     document(a.deleteParameter),
	}
}

type parameterName struct {
	Name string
}

type parameterDocument struct {
	Name             string
	Type             string
	Value            string
	Version          int64
	LastModifiedDate float64 // seconds since 1970
	ARN              string
	DataType         string
}

type parameterOutput struct {
	Parameter parameterDocument
}

func (a *account) findParameter(name string) (*parameter, error) {
	if p, ok := a.parameters[name]; ok {
		return p, nil
	}
	return nil, wire.Errorf("ParameterNotFound", "the parameter %s does not exist", name)
}

func (a *account) getParameter(_ *request, in *parameterName) (*parameterOutput, error) {
	p, err := a.findParameter(in.Name)
	if err != nil {
		return nil, err
	}
	return &parameterOutput{a.describeParameter(p)}, nil
}

type getParametersByPathInput struct {
	Path       string
	Recursive  bool
	MaxResults *int64
	NextToken  *string
}

type getParametersByPathOutput struct {
	Parameters []parameterDocument
	NextToken  *string `json:",omitempty"`
}

func (a *account) getParametersByPath(_ *request, in *getParametersByPathInput) (*getParametersByPathOutput, error) {
	prefix := strings.TrimSuffix(in.Path, "/") + "/"
	var selected []*parameter
	for _, p := range a.parameters {
		rest, ok := strings.CutPrefix(p.name, prefix)
		if ok && (in.Recursive || !strings.Contains(rest, "/")) {
			selected = append(selected, p)
		}
	}
	// Without a limit, SSM returns ten at a time.
	limit := cmp.Or(aws.Int64Value(in.MaxResults), 10)
	selected, next, err := page(selected, func(p *parameter) string { return p.name }, &limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &getParametersByPathOutput{Parameters: []parameterDocument{}, NextToken: next}
	for _, p := range selected {
		out.Parameters = append(out.Parameters, a.describeParameter(p))
	}
	return out, nil
}

type putParameterInput struct {
	Name, Value, Type string
	Overwrite         bool
}

type putParameterOutput struct {
	Version int64
	Tier    string
}

func (a *account) putParameter(_ *request, in *putParameterInput) (*putParameterOutput, error) {
	p, exists := a.parameters[in.Name]
	if exists && !in.Overwrite {
		return nil, wire.Errorf("ParameterAlreadyExists", "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	}
	if !exists {
		p = &parameter{name: in.Name}
		a.parameters[in.Name] = p
	}
	p.value, p.kind, p.modified = in.Value, cmp.Or(in.Type, p.kind), a.now
	p.version++
	return &putParameterOutput{Version: p.version, Tier: "Standard"}, nil
}

func (a *account) deleteParameter(_ *request, in *parameterName) (*struct{}, error) {
	if _, err := a.findParameter(in.Name); err != nil {
		return nil, err
	}
	delete(a.parameters, in.Name)
	return &struct{}{}, nil
}

func (a *account) describeParameter(p *parameter) parameterDocument {
	return parameterDocument{
		Name: p.name, Type: cmp.Or(p.kind, "String"), Value: p.value, Version: p.version, DataType: "text",
		LastModifiedDate: float64(p.modified.Unix()),
		ARN:              a.parameterARN(p.name),
	}
}

// parameterARN returns the ARN of a parameter; those under /aws/ belong to no account.
func (a *account) parameterARN(name string) string {
	rest := "parameter/" + strings.TrimPrefix(name, "/")
	if strings.HasPrefix(name, "/aws/") {
		return "arn:" + partition(a.options.Region) + ":ssm:" + a.options.Region + "::" + rest
	}
	return a.arn("ssm", a.options.Region, rest)
}
