// SPDX-License-Identifier: Apache-2.0
// Attention of sequences that the ranks of a cp group share, each a part of the tokens.
//
// Ring (arXiv 2310.01889): keys and values go round the ranks while queries stay. A sequence is
// cut into 2·cp pieces, and rank r has the pieces r and 2·cp − 1 − r, so that all ranks have
// the same work under the causal mask. Of the keys of a rank before it, its queries see the
// first piece; of those of a rank behind it, its second piece sees both.
//
// Ulysses (arXiv 2309.14509): an exchange gives each rank all tokens of its part of the heads,
// and another one gives the result back.
#pragma once

#include "parallel/rank_context.hpp"

namespace shardbench {

/// Positions of this rank's tokens in their sequence.
Positions positions_of(const RankContext& context);

/// Shape of a rank's attention: under Ulysses all tokens of its part of the heads.
AttentionShape attended_shape(const AttentionShape& own, const Layout& layout);

/// Attention over rotated q, k, v. Ulysses keeps them exchanged: `again` tells it so.
enum class Attending { first, again };
void context_attention(
    const RankContext& context, Block& attended, Block& lse, const Block& qkv, Attending attending);

/// Fills d_qkv with the gradients to rotated q, k, v of this rank's tokens.
struct ContextGradient {
  const Block& d_qkv;
  const Block& d_attended;
  const Block& qkv;
  const Block& attended;
  const Block& lse;
};
void context_attention_backward(const RankContext& context, const ContextGradient& g);

}  // namespace shardbench
