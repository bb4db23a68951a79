// SPDX-License-Identifier: GPL-2.0
/*
 * A KUnit suite with a case that fails, one that is skipped and one that
 * leaves a warning in the log. Inserting this module succeeds all the same;
 * only a harness that reads results and log notices.
 */

#include <kunit/test.h>
#include <linux/module.h>

static void passes(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, 1);
}

static void fails_on_purpose(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, 2);
}

static void is_skipped(struct kunit *test)
{
	kunit_skip(test, "skipped on purpose");
}

static void warns_on_purpose(struct kunit *test)
{
	WARN(true, "rdma_dmabuf: warning on purpose\n");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(passes),
	KUNIT_CASE(fails_on_purpose),
	KUNIT_CASE(is_skipped),
	KUNIT_CASE(warns_on_purpose),
	{}
};

static struct kunit_suite suite = {
	.name = "rdma_dmabuf_mustfail",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit suite that fails on purpose");
MODULE_LICENSE("GPL");
