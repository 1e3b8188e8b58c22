package awssim

// cloudFormation returns the IAM checks of a call to CloudFormation, by the stack in it. The ID of a stack that does not
// exist yet is unknown.
func (q question) cloudFormation() []access {
	form := q.request.form
	name, set := form.Get("StackName"), form.Get("ChangeSetName")
	if set != "" {
		if found, err := q.findChangeSet(&set, &name); err == nil {
			name = found.stack.id
		}
	}
	if name == "" {
		return q.about("*", nil)
	}
	arn, has := q.arn("cloudformation", q.options.Region, "stack/"+name+"/*"), map[string]string(nil)
	if st, err := q.findStack(&name); err == nil {
		arn, has = st.id, st.tags
	}
	asked := q.ask(q.request.action, arn, has, q.formTags())
	if set != "" {
		asked.Context.Set("cloudformation:ChangeSetName", set)
	}
	return []access{asked}
}
