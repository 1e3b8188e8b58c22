package awssim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// launchTemplate has one version: Karpenter creates a new template for each change.
type launchTemplate struct {
	resource
	name    string
	data    *ec2.RequestLaunchTemplateData
	created time.Time
	creator string
}

func (a *account) launchTemplateActions() map[string]action {
	return map[string]action{
		"CreateLaunchTemplate":           query(a, a.createLaunchTemplate),
		"DeleteLaunchTemplate":           query(a, a.deleteLaunchTemplate),
		"DescribeLaunchTemplates":        query(a, a.describeLaunchTemplates),
		"DescribeLaunchTemplateVersions": query(a, a.describeLaunchTemplateVersions),
	}
}

// findTemplate returns a template by its ID or its name, whichever is given.
func (a *account) findTemplate(id, name *string) (*launchTemplate, error) {
	if id != nil {
		if t, ok := a.templates[*id]; ok && t.visible(a.now) {
			return t, nil
		}
		return nil, wire.Errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", *id)
	}
	if t := a.templateNamed(aws.StringValue(name)); t != nil && t.visible(a.now) {
		return t, nil
	}
	return nil, wire.Errorf("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist: %s.", aws.StringValue(name))
}

func (a *account) templateNamed(name string) *launchTemplate {
	for _, t := range a.templates {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (a *account) createLaunchTemplate(r *request, in *ec2.CreateLaunchTemplateInput) (*ec2.CreateLaunchTemplateOutput, error) {
	name := aws.StringValue(in.LaunchTemplateName)
	if name == "" || in.LaunchTemplateData == nil {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameters LaunchTemplateName and LaunchTemplateData")
	}
	if a.templateNamed(name) != nil {
		return nil, wire.Errorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	if err := checkUserData(aws.StringValue(in.LaunchTemplateData.UserData)); err != nil {
		return nil, err
	}
	t := &launchTemplate{
		resource: a.newResource("lt-", specTags(in.TagSpecifications, "launch-template"), r.hide()),
		name:     name, data: in.LaunchTemplateData, created: a.now, creator: r.principal.ARN,
	}
	a.templates[t.ID] = t
	return &ec2.CreateLaunchTemplateOutput{LaunchTemplate: t.describe()}, nil
}

func (a *account) deleteLaunchTemplate(_ *request, in *ec2.DeleteLaunchTemplateInput) (*ec2.DeleteLaunchTemplateOutput, error) {
	t, err := a.findTemplate(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	delete(a.templates, t.ID)
	return &ec2.DeleteLaunchTemplateOutput{LaunchTemplate: t.describe()}, nil
}

func (a *account) describeLaunchTemplates(r *request, in *ec2.DescribeLaunchTemplatesInput) (*ec2.DescribeLaunchTemplatesOutput, error) {
	matches, err := selector(in.Filters, attributes[*launchTemplate]{
		"launch-template-name": one(func(t *launchTemplate) string { return t.name }),
		"create-time":          one(func(t *launchTemplate) string { return t.created.UTC().Format(time.RFC3339) }),
	})
	if err != nil {
		return nil, err
	}
	var selected []*launchTemplate
	for _, id := range in.LaunchTemplateIds {
		t, err := a.findTemplate(id, nil)
		if err != nil {
			return nil, err
		}
		selected = append(selected, t)
	}
	for _, name := range in.LaunchTemplateNames {
		t, err := a.findTemplate(nil, name)
		if err != nil {
			return nil, err
		}
		selected = append(selected, t)
	}
	if len(in.LaunchTemplateIds)+len(in.LaunchTemplateNames) == 0 {
		for _, t := range a.templates {
			if t.visible(a.now) && matches(t) {
				selected = append(selected, t)
			}
		}
	}
	selected, next, err := ec2Page(a, r, selected, func(t *launchTemplate) string { return t.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeLaunchTemplatesOutput{NextToken: next, LaunchTemplates: []*ec2.LaunchTemplate{}}
	for _, t := range selected {
		out.LaunchTemplates = append(out.LaunchTemplates, t.describe())
	}
	return out, nil
}

func (a *account) describeLaunchTemplateVersions(_ *request, in *ec2.DescribeLaunchTemplateVersionsInput) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
	t, err := a.findTemplate(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	// Request and response data have the same fields with the same names.
	data := &ec2.ResponseLaunchTemplateData{}
	content, err := json.Marshal(t.data)
	if err != nil {
		return nil, fmt.Errorf("copying the data of launch template %s: %w", t.ID, err)
	}
	if err := json.Unmarshal(content, data); err != nil {
		return nil, fmt.Errorf("copying the data of launch template %s: %w", t.ID, err)
	}
	return &ec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: []*ec2.LaunchTemplateVersion{{
		LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.name), VersionNumber: aws.Int64(1),
		DefaultVersion: aws.Bool(true), CreateTime: aws.Time(t.created), CreatedBy: aws.String(t.creator), LaunchTemplateData: data,
	}}}, nil
}

func (t *launchTemplate) describe() *ec2.LaunchTemplate {
	return &ec2.LaunchTemplate{
		LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.name),
		CreateTime: aws.Time(t.created), CreatedBy: aws.String(t.creator),
		DefaultVersionNumber: aws.Int64(1), LatestVersionNumber: aws.Int64(1), Tags: ec2Tags(t.Tags),
	}
}
