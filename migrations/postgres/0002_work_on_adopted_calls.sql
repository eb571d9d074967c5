-- Of a call that was adopted from a lost node: how many nodes that had adopted it were lost while they worked on it. While its
-- node works on it, one more. NULL is 0.
ALTER TABLE tool_calls ADD COLUMN at_work SMALLINT;
